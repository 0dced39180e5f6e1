"""Gemma 1, 2 and 3 (text): tied embeddings, from Gemma 2 on four norms and sliding windows."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    layer_windows,
    rotary_cache,
    tied_embeddings,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, RotaryCache, Tensor
from model_cards.quantization.scheme import QuantScheme

# One number that the model object multiplies the embedding by, on every stage.
_NORMALIZER = Buffer("normalizer", 1)
# Base frequency of sliding layers.
_LOCAL_BASE = 10_000.0


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(config: Config, scheme: QuantScheme, *, root: str = "") -> Body:
    """The language model, whose modules have paths below `root`."""
    generation = {"gemma": 1, "gemma2": 2}.get(config.model_type, 3)
    intermediate = config.integer("intermediate_size")
    windows = _windows(config, generation)

    def layer(b: LayerBuilder, index: int) -> Layer:
        norms = [b.norm("input_layernorm"), b.norm("post_attention_layernorm")]
        if generation >= 2:
            norms += [b.norm("pre_feedforward_layernorm"), b.norm("post_feedforward_layernorm")]
        bias = config.boolean("attention_bias", False)
        return Layer(
            (
                *b.attention(qkv_bias=bias, o_bias=bias, qk_norm=generation >= 3),
                *b.gated_mlp(intermediate),
                *norms,
            ),
            (b.cache(windows[index]),),
        )

    tied = tied_embeddings(config, True)
    embedding, head = vocabulary(config, scheme, tied=tied, head=f"{root}lm_head")
    layers = assemble(
        config, scheme, layer, kind=lambda index: windows[index], root=f"{root}model.layers"
    )
    return Body(
        embedding,
        layers,
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        rotary_tables(config) if generation >= 3 else (rotary_cache(config),),
        max_intermediate_size=intermediate,
        beside=(_NORMALIZER,),
    )


def _windows(config: Config, generation: int) -> tuple[int | None, ...]:
    if generation == 1:
        return (None,) * config.num_layers
    if generation == 2:  # every other layer slides, from the first
        return layer_windows(config, lambda index: index % 2 == 0)
    period = config.integer("sliding_window_pattern", config.integer("_sliding_window_pattern", 6))
    return layer_windows(config, lambda index: (index + 1) % period != 0)


def rotary_tables(config: Config) -> tuple[RotaryCache, ...]:
    """From Gemma 3 on: a table for full layers and one, not scaled with it, for sliding layers.

    vLLM keys them apart from the tables of other families, even with the same angles.
    """
    nested = config.rope_parameters
    full = nested.section("full_attention") or nested
    base = config.number("rope_local_base_freq", _LOCAL_BASE)
    unscaled = Config({"rope_theta": base}, f"{config.where}: local rope")
    local = nested.section("sliding_attention") or unscaled
    tables = (rotary_cache(config, rope=full), rotary_cache(config, rope=local))
    return tuple(replace(table, rope=(*table.rope, "by layer type")) for table in tables)
