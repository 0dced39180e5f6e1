"""Qwen 2 and 2.5: Llama's layers with biases on q, k and v."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    decoder,
    layer_windows,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def windows(config: Config) -> tuple[int | None, ...]:
    """Windows of a Qwen config: from layer `max_window_layers` on, if `use_sliding_window`."""
    if not config.boolean("use_sliding_window", False):
        return (None,) * config.num_layers
    first = config.integer("max_window_layers", 28, minimum=0)
    return layer_windows(config, lambda index: index >= first)


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(config: Config, scheme: QuantScheme, *, root: str = "") -> Body:
    """The language model, whose modules have paths below `root`."""
    intermediate = config.integer("intermediate_size")
    window = windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=True),
                *b.gated_mlp(intermediate),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(window[index]),),
        )

    return decoder(
        config, scheme, layer, kind=lambda index: window[index], width=intermediate, root=root
    )
