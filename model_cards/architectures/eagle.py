"""EAGLE heads: one or a few Llama layers that draft from the target's hidden states.

EAGLE-1 projects the token's embedding and the last hidden state together. EAGLE-3 projects hidden
states of several target layers, and its first layer attends over embedding and hidden state side
by side. Both can share the target's embedding and output head; EAGLE-3 heads with a vocabulary of
their own keep a map to the target's.
"""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    layer_windows,
    rotary_cache,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, Embedding, Linear, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_EAGLE3_HIDDEN_STATES = 3  # target layers that a head reads unless it says otherwise


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    if config.architectures[0].startswith("EagleLlama"):
        return _eagle1(config, scheme)
    return _eagle3(config, scheme)


def _eagle1(config: Config, scheme: QuantScheme) -> Body:
    def layer(b: LayerBuilder, index: int) -> Layer:
        modules = [*b.attention(), *b.gated_mlp(config.integer("intermediate_size"))]
        if index:  # the first layer takes the projection as it is
            modules.append(b.norm("input_layernorm"))
        return Layer((*modules, b.norm("post_attention_layernorm")), (b.cache(),))

    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    top = LayerBuilder(config, scheme, "model")
    return Body(
        Embedding("embed_tokens", rows, hidden),
        assemble(config, scheme, layer, kind=lambda index: index == 0),
        (),
        Embedding("lm_head", rows, hidden),
        (rotary_cache(config),),
        max_intermediate_size=config.integer("intermediate_size"),
        beside=(top.replicated("fc", 2 * hidden, hidden),),
    )


def _eagle3(config: Config, scheme: QuantScheme) -> Body:
    bias = config.boolean("attention_bias", False)
    windows = layer_windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        norms = ("input_layernorm", "post_attention_layernorm", "hidden_norm")
        modules = (
            *_attention(b, b.hidden * (2 if index == 0 else 1), bias=bias),
            *b.gated_mlp(config.integer("intermediate_size")),
            *(b.norm(name) for name in norms),
        )
        return Layer(modules, (b.cache(windows[index]),))

    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    own_rows = config.integer("draft_vocab_size", rows)
    beside = _projection(config, LayerBuilder(config, scheme, "model"))
    if own_rows != rows:
        beside.append(Tensor("d2t", (own_rows,), "int64"))
    if config.architectures[0].lower().startswith("peagle"):
        beside.append(Buffer("mask_hidden", _inputs(config)))
    return Body(
        Embedding("embed_tokens", rows, hidden),
        assemble(config, scheme, layer, kind=lambda index: (index == 0, windows[index])),
        (Tensor("norm", (hidden,)),),
        Embedding("lm_head", own_rows, hidden),
        (rotary_cache(config),),
        max_intermediate_size=config.integer("intermediate_size"),
        beside=tuple(beside),
    )


def _attention(b: LayerBuilder, inputs: int, *, bias: bool) -> list[Module]:
    """Llama's attention with so many inputs; the bias is that of q, k and v."""
    qkv, *others = b.attention(qkv_bias=bias)
    assert isinstance(qkv, Linear)
    outputs: tuple[Output, ...] = qkv.outputs
    return [Linear(qkv.name, inputs, outputs, Shard.COLUMN, qkv.bias, qkv.format), *others]


def _settings(config: Config) -> Config:
    return config.section("eagle_config") or Config({}, f"{config.where}: eagle_config")


def _hidden_states(config: Config) -> int:
    """Hidden states of the target that the head reads for every token."""
    listed = _settings(config).integers("eagle_aux_hidden_state_layer_ids")
    return config.integer("num_aux_hidden_states", len(listed) or _EAGLE3_HIDDEN_STATES)


def _inputs(config: Config) -> int:
    width = config.integer("target_hidden_size", config.integer("hidden_size"))
    return width * _hidden_states(config)


def _projection(config: Config, top: LayerBuilder) -> list[Module]:
    """What brings the target's hidden states to the head's width."""
    if not _settings(config).boolean("use_aux_hidden_state", True):
        return []
    inputs, count = _inputs(config), _hidden_states(config)
    modules: list[Module] = [top.replicated("fc", inputs, top.hidden)]
    before = _settings(config).boolean("norm_before_fc", config.boolean("norm_before_fc", False))
    if before:
        modules.append(top.norm("input_norm", inputs))
    if config.boolean("fc_norm", False):
        modules += [top.norm(f"fc_norm.{index}", inputs // count) for index in range(count)]
    return modules
