"""MiniMax M2: every layer sparse, norms over all query and all key features, partial rotary."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts, active = config.integer("num_local_experts"), config.integer("num_experts_per_tok")
    intermediate = config.integer("intermediate_size")
    heads, kv_heads, size = (
        config.integer("num_attention_heads"),
        config.num_kv_heads,
        config.head_size,
    )
    routing_bias = config.boolean("use_routing_bias", False)

    def layer(b: LayerBuilder, index: int) -> Layer:
        modules: list[Module] = [
            *b.attention(qkv_bias=config.boolean("attention_bias", False)),
            # Each rank normalizes its own heads, with the variance of all ranks.
            Tensor("self_attn.q_norm", (heads, size), sharded=True),
            Tensor("self_attn.k_norm", (kv_heads, size), sharded=True),
            b.router(experts, fp32=True),
            b.experts(experts, active, intermediate),
            b.norm("input_layernorm"),
            b.norm("post_attention_layernorm"),
        ]
        if routing_bias:
            modules.append(Tensor("mlp.e_score_correction_bias", (experts,), "float32"))
        return Layer(tuple(modules), (b.cache(),))

    embedding, head = vocabulary(config, scheme, tied=False)
    return Body(
        embedding,
        assemble(config, scheme, layer),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (rotary_cache(_partial(config)),),
        max_intermediate_size=active * intermediate,
        experts_per_token=active,
    )


def _partial(config: Config) -> Config:
    """`rotary_dim` of every head is rotated, unless `partial_rotary_factor` says otherwise."""
    if "partial_rotary_factor" in config or "rotary_dim" not in config:
        return config
    factor = config.integer("rotary_dim") / config.head_size
    return config.merged({"partial_rotary_factor": factor})
