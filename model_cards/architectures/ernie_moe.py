"""ERNIE 4.5 MoE: dense first layers, then shared and routed experts behind an fp32 router."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    tied_embeddings,
    vocabulary,
)
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, RotaryCache, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts, active = config.integer("moe_num_experts", 64), config.integer("moe_k", 6)
    expert_size = config.integer("moe_intermediate_size", 1536)
    shared_size = expert_size * config.integer("moe_num_shared_experts", 2, minimum=0)
    dense_size = config.integer("intermediate_size")
    bias = config.boolean("use_bias", False)
    first = config.integer("moe_layer_start_index", 1, minimum=0)
    last = config.integer("moe_layer_end_index", config.num_layers - 1, minimum=-1)
    if last < 0:
        last = config.num_layers - 1
    interval = config.integer("moe_layer_interval", 1)

    def is_sparse(index: int) -> bool:
        return first <= index <= last and (index + 1) % interval == 0

    def moe(b: LayerBuilder) -> list[Module]:
        return [
            b.router(experts, fp32=True),
            Tensor("mlp.gate.e_score_correction_bias", (experts,), "float32"),
            *(b.gated_mlp(shared_size, "mlp.shared_experts") if shared_size else ()),
            b.experts(experts, active, expert_size, trtllm=False),
        ]

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias),
                *(moe(b) if is_sparse(index) else b.gated_mlp(dense_size, bias=bias)),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(),),
        )

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, True))
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=is_sparse),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (_rotary(config),),
        max_intermediate_size=max(dense_size, shared_size, active * expert_size),
        experts_per_token=active,
        drafts=_drafts(config, scheme),
    )


def _rotary(config: Config) -> RotaryCache:
    table = rotary_cache(config)
    return replace(table, rope=(*table.rope, "interleaved pairs"))


def _drafts(config: Config, scheme: QuantScheme) -> tuple[Draft, ...]:
    """MTP layers: one of Llama's, dense, behind a projection."""
    count = config.integer("num_nextn_predict_layers", 0, minimum=0)
    if not count:
        return ()
    layers: list[Layer] = []
    around: list[Module] = []
    for index in range(config.num_layers, config.num_layers + count):
        b = LayerBuilder(config, scheme, f"model.layers.{index}")
        modules = (
            *b.attention(),
            *b.gated_mlp(config.integer("intermediate_size")),
            b.norm("input_layernorm"),
            b.norm("post_attention_layernorm"),
        )
        layers.append(Layer(modules, (b.cache(),)))
        around += [
            b.norm("mtp_emb_norm"),
            b.norm("mtp_hidden_norm"),
            b.replicated("mtp_linear_proj", 2 * b.hidden, b.hidden, quantized=False),
        ]
    # Llama's rotary pairs lie differently, so the table is another one.
    return (Draft("mtp", tuple(layers), tuple(around), rotary=(rotary_cache(config),)),)
