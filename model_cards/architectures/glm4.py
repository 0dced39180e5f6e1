"""GLM 4 of April 2025 and GLM Z1: norms before and after attention and MLP, half-rotated heads."""

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
    intermediate = config.integer("intermediate_size")
    bias = config.boolean("attention_bias", True)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias),
                *b.gated_mlp(intermediate),
                b.norm("input_layernorm"),
                b.norm("post_self_attn_layernorm"),
                b.norm("post_attention_layernorm"),
                b.norm("post_mlp_layernorm"),
            ),
            (b.cache(),),
        )

    return decoder(config, scheme, layer, width=intermediate)
