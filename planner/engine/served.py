"""The model as vLLM serves it: what settings change in the network itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from model_cards.build import quantized_online
from model_cards.caches import Attention
from model_cards.card import Fidelity, Layer, ModelCard
from model_cards.modules import NO_HEAD
from model_cards.pooling import fp32_linear, without_head
from planner.engine.architectures import is_registered
from planner.engine.kv_cache_dtypes import is_packed
from planner.engine.pooling import conversion, is_pooled
from planner.engine_config import EngineConfig

# Layers at either end whose cache stays in 16 bit where keys and values are packed.
_NATIVE_ENDS: Final = 2


def as_served(card: ModelCard, config: EngineConfig) -> ModelCard:
    """`card` with its weights quantized online, the caches that stay as they are, and its head."""
    if config.quantization is not None:
        card = quantized_online(card, config.quantization)
    if is_packed(config.kv_cache_dtype) and not card.states:
        card = _with_native_ends(card)
    if is_pooled(card, config):
        card = _pooled(card, conversion(card, config))
    return card


@lru_cache(maxsize=64)
def _pooled(card: ModelCard, convert: str) -> ModelCard:
    """A network as it is pooled.

    Dense layers behind the embedding of a text are loaded twice: there are poolers of texts and
    of tokens, in fp32.
    """
    embeds = convert == "embed"
    if card.pooling.native:
        embeds = not card.architecture.endswith(("Classification", "RewardModel"))
    else:
        card = _adapted(card, convert)
    if not embeds or not card.pooling.projections:
        return card
    layers = tuple(
        fp32_linear("dense", layer.inputs, layer.outputs, bias=layer.bias)
        for layer in card.pooling.projections
    )
    return replace(card, beside=(*card.beside, *layers, *layers))


def _adapted(card: ModelCard, convert: str) -> ModelCard:
    """A network made to pool by vLLM's adapters (model_executor/models/adapters.py).

    Its output head is dropped; a classifier gets scores, in fp32 and on every pipeline stage.
    Where a class of another purpose is asked for, vLLM has only the Transformers backend.
    """
    other = without_head(card.architecture) and convert != card.pooling.convert
    if other and not is_registered(card.architecture):
        note = f"{card.architecture} with --convert {convert} runs through the Transformers backend"
        card = replace(card, fidelity=Fidelity.ESTIMATED, notes=(*card.notes, note))
    beside = card.beside
    if convert == "classify":
        labels = card.pooling.labels
        beside = (*beside, fp32_linear("score", card.hidden_size, labels, bias=False))
    head = NO_HEAD if card.lm_head is not None else None
    return replace(card, lm_head=head, beside=beside)


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
