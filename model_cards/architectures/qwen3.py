"""Qwen 3 dense: norms on q and k heads instead of biases."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    decoder,
)
from model_cards.architectures.qwen2 import windows
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(config: Config, scheme: QuantScheme, *, root: str = "") -> Body:
    """The language model, whose modules have paths below `root`."""
    intermediate = config.integer("intermediate_size")
    bias = config.boolean("attention_bias", False)
    window = windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias, qk_norm=True),
                *b.gated_mlp(intermediate),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(window[index]),),
        )

    return decoder(
        config, scheme, layer, kind=lambda index: window[index], width=intermediate, root=root
    )
