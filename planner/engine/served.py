"""The model as vLLM serves it: what settings change in the network itself."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from model_cards.build import quantized_online
from model_cards.caches import Attention
from model_cards.card import Layer, ModelCard
from planner.engine.kv_cache_dtypes import is_packed
from planner.engine_config import EngineConfig

# Layers at either end whose cache stays in 16 bit where keys and values are packed.
_NATIVE_ENDS: Final = 2


def as_served(card: ModelCard, config: EngineConfig) -> ModelCard:
    """`card` with its weights quantized online, and the caches that stay as they are."""
    if config.quantization is not None:
        card = quantized_online(card, config.quantization)
    if is_packed(config.kv_cache_dtype) and not card.states:
        card = _with_native_ends(card)
    return card


@lru_cache(maxsize=64)
def _with_native_ends(card: ModelCard) -> ModelCard:
    count = card.num_layers
    ends = min(_NATIVE_ENDS, count // 2)

    def native(layer: Layer) -> Layer:
        caches = tuple(
            replace(cache, follows_cache_dtype=False) if isinstance(cache, Attention) else cache
            for cache in layer.caches
        )
        return replace(layer, caches=caches)

    layers = tuple(
        native(layer) if index < ends or index >= count - ends else layer
        for index, layer in enumerate(card.layers)
    )
    return replace(card, layers=layers)
