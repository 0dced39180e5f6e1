"""Granite 4: Mamba-2 or attention, then routed and shared experts or one MLP, in every layer."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    tied_embeddings,
    vocabulary,
)
from model_cards.architectures.mamba import Mamba2
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_ATTENTION = frozenset({"attention", "full_attention"})
_MAMBA = frozenset({"mamba", "linear_attention"})


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts = config.integer("num_local_experts", 8, minimum=0)
    active = config.integer("num_experts_per_tok", 2) if experts else 0
    intermediate = config.integer("intermediate_size", 11008)
    shared = config.integer("shared_intermediate_size", 1024, minimum=0)
    bias = config.boolean("attention_bias", False)
    types, mixer = _layer_types(config), _mixer(config)

    def feed_forward(b: LayerBuilder) -> list[Module]:
        modules: list[Module] = []
        if experts:
            modules += [
                b.router(experts, "block_sparse_moe.gate"),
                b.experts(experts, active, intermediate, "block_sparse_moe.experts"),
            ]
        if shared:
            halves = [Output("gate_proj", shared), Output("up_proj", shared)]
            modules += [
                b.linear("shared_mlp.input_linear", b.hidden, halves, Shard.COLUMN),
                b.row("shared_mlp.output_linear", shared, b.hidden),
            ]
        return modules

    def layer(b: LayerBuilder, index: int) -> Layer:
        attends = types[index] in _ATTENTION
        return Layer(
            (
                *(b.attention(qkv_bias=bias, o_bias=bias) if attends else mixer.modules(b)),
                *feed_forward(b),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache() if attends else mixer.state(),),
        )

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, False))
    rotary = config.string("position_embedding_type", "") == "rope"
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: types[index]),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (rotary_cache(config),) if rotary and set(types) & _ATTENTION else (),
        max_intermediate_size=max(
            mixer.inner if set(types) & _MAMBA else 0, shared, active * intermediate
        ),
        experts_per_token=active,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )


def _layer_types(config: Config) -> tuple[str, ...]:
    """What every layer mixes tokens with; Mamba-2 unless said otherwise."""
    types = config.strings("layer_types") or config.strings("layers_block_type")
    types = types or ("mamba",) * config.num_layers
    if len(types) != config.num_layers or set(types) - _ATTENTION - _MAMBA:
        raise config.fail("layer_types", f"attention or mamba for {config.num_layers} layers")
    return types


def _mixer(config: Config) -> Mamba2:
    heads = config.integer("mamba_n_heads", 128)
    inner = config.integer("mamba_expand", 2) * config.integer("hidden_size")
    if inner % heads:
        raise config.fail("mamba_n_heads", f"a divisor of {inner}, the inner channels")
    return Mamba2(
        heads,
        inner // heads,
        config.integer("mamba_d_state", 256),
        config.integer("mamba_n_groups", 1),
        config.integer("mamba_d_conv", 4),
        config.boolean("mamba_conv_bias", True),
        config.boolean("mamba_proj_bias", False),
    )
