"""Cohere's Command R and A, Aya: attention and MLP side by side behind one LayerNorm without bias.

Command R7B and A (Cohere 2) slide in three of four layers.
"""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    layer_windows,
    rotary_cache,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    intermediate = config.integer("intermediate_size")
    windows = _windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(),
                *_qk_norms(config),
                *b.gated_mlp(intermediate),
                b.norm("input_layernorm"),
            ),
            (b.cache(windows[index]),),
        )

    embedding, _ = vocabulary(config, scheme, tied=True)  # vLLM's class has no head of its own
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: windows[index]),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        None,
        (rotary_cache(config, rows=config.optional_integer("model_max_length")),),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )


def _qk_norms(config: Config) -> list[Module]:
    """Norms with a weight for every head, split with the heads."""
    if not config.boolean("use_qk_norm", False):
        return []
    size = config.head_size
    return [
        Tensor("self_attn.q_norm", (config.integer("num_attention_heads"), size), sharded=True),
        Tensor("self_attn.k_norm", (config.num_kv_heads, size), sharded=True),
    ]


def _windows(config: Config) -> tuple[int | None, ...]:
    """Cohere counts the tokens before the current one, vLLM the current one too."""
    if config.model_type == "cohere":
        return (None,) * config.num_layers
    period = config.integer("sliding_window_pattern", 4)
    windows = layer_windows(config, lambda index: (index + 1) % period != 0)
    return tuple(window + 1 if window else None for window in windows)
