"""What a checkpoint holds: `open_card("Qwen/Qwen3-8B")` gives its ModelCard."""

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
