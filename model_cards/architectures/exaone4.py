"""EXAONE 4: norms after attention and MLP and on the heads; three of four layers slide."""

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


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    intermediate = config.integer("intermediate_size")
    bias = config.boolean("attention_bias", False)
    mlp_bias = config.boolean("mlp_bias", False)
    windows = _windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias, o_bias=bias, qk_norm=True),
                *b.gated_mlp(intermediate, bias=mlp_bias),
                b.norm("post_attention_layernorm"),
                b.norm("post_feedforward_layernorm"),
            ),
            (b.cache(windows[index]),),
        )

    return decoder(config, scheme, layer, kind=lambda index: windows[index], width=intermediate)


def _windows(config: Config) -> tuple[int | None, ...]:
    if "layer_types" in config:  # and `sliding_window_pattern` says the same as "LLLG"
        return layer_windows(config)
    period = config.integer("sliding_window_pattern", 4)
    return layer_windows(config, lambda index: (index + 1) % period != 0)
