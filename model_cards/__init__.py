"""What a checkpoint holds: `open_card("Qwen/Qwen3-8B")` gives its ModelCard.

Names are imported when first used: cards of the bundled catalogue need no source but that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model_cards.caches import Attention, AttentionKind, RecurrentState, StateKind
    from model_cards.card import Fidelity, Layer, ModelCard, Origin
    from model_cards.errors import (
        BadConfig,
        CardError,
        GatedModel,
        HubUnavailable,
        UnknownModel,
        UnsupportedModel,
    )
    from model_cards.sources.open import open_card

_HOMES = {
    "caches": ("Attention", "AttentionKind", "RecurrentState", "StateKind"),
    "card": ("Fidelity", "Layer", "ModelCard", "Origin"),
    "errors": (
        "BadConfig",
        "CardError",
        "GatedModel",
        "HubUnavailable",
        "UnknownModel",
        "UnsupportedModel",
    ),
    "sources.open": ("open_card",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Attention",
    "AttentionKind",
    "BadConfig",
    "CardError",
    "Fidelity",
    "GatedModel",
    "HubUnavailable",
    "Layer",
    "ModelCard",
    "Origin",
    "RecurrentState",
    "StateKind",
    "UnknownModel",
    "UnsupportedModel",
    "open_card",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
