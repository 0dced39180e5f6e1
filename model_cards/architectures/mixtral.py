"""Mixtral and Granite MoE: every layer with routed experts behind an unquantized router."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    decoder,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts = config.integer("num_local_experts", 8)
    active = config.integer("num_experts_per_tok", 2)
    intermediate = config.integer("intermediate_size")
    window = config.optional_integer("sliding_window", minimum=0) or None

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(),
                b.router(experts, "block_sparse_moe.gate"),
                b.experts(experts, active, intermediate, "block_sparse_moe.experts"),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(window),),
        )

    return decoder(
        config,
        scheme,
        layer,
        width=active * intermediate,
        active=active,
        vocabulary_on_every_stage=True,
    )
