"""Llama and what vLLM serves with its class: Mistral, Ministral 3, InternLM 3, Phi 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    decoder,
    layer_windows,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme

# transformers' MistralConfig slides over 4096 tokens unless the file says `null`.
_MISTRAL_WINDOW = 4096


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(
    config: Config,
    scheme: QuantScheme,
    *,
    root: str = "",
    qkv: Sequence[str] = ("q_proj", "k_proj", "v_proj"),
    gate_up: Sequence[str] = ("gate_proj", "up_proj"),
) -> Body:
    """The language model, whose modules have paths below `root` and fuse what is named."""
    intermediate = config.integer("intermediate_size")
    # InternLM 3 spells its biases `qkv_bias` and `bias`.
    qkv_bias = config.boolean("attention_bias", config.boolean("qkv_bias", False))
    o_bias = config.boolean("attention_bias", config.boolean("bias", False))
    mlp_bias = config.boolean("mlp_bias", config.boolean("bias", False))
    windows, notes = _windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=qkv_bias, o_bias=o_bias, parts=qkv),
                *b.gated_mlp(intermediate, bias=mlp_bias, parts=gate_up),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(windows[index]),),
        )

    return replace(
        decoder(
            config, scheme, layer, kind=lambda index: windows[index], width=intermediate, root=root
        ),
        notes=notes,
    )


def _windows(config: Config) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """Per layer from `layer_types`, else one `sliding_window` for the whole model."""
    if "layer_types" in config:
        return layer_windows(config), ()
    count = config.num_layers
    if config.model_type == "mistral" and not config.names("sliding_window"):
        if config.complete:
            return (_MISTRAL_WINDOW,) * count, ()
        note = (
            "the copy of this config does not say whether attention slides; planned without a "
            "window, which needs more cache"
        )
        return (None,) * count, (note,)
    window = config.optional_integer("sliding_window", minimum=0) or None
    return (window,) * count, ()
