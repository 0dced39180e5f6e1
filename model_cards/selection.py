"""Which models are meant, and in which order: by architecture, format, size, licence, use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from model_cards.card import ModelCard
from model_cards.config import shorten
from model_cards.errors import CardError

# What a checkpoint does, as its config tells it: `--use`.
USES: Final = ("generate", "multimodal", "embed", "classify", "transcribe", "draft")
_SCORES: Final = ("Classification", "Reward")  # of classes that give scores, not vectors
_COUNT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([kmbt]?)", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
# What to sort by, the largest first. Names need no key.
_KEYS: Final[dict[str, Callable[[ModelCard], int]]] = {
    "parameters": lambda card: card.parameters,
    "active": lambda card: card.active_parameters,
    "size": lambda card: card.weight_bytes,
    "context": lambda card: card.max_model_len,
}
SORTS: Final = ("name", *_KEYS)


def uses_of(card: ModelCard) -> frozenset[str]:
    """What a checkpoint is for."""
    if card.head is not None:
        return frozenset({"draft"})
    if card.pooling.pools:
        scores = any(part in card.architecture for part in _SCORES)
        return frozenset({"classify" if scores else "embed"})
    if card.has_cross_attention:
        return frozenset({"transcribe"})
    return frozenset({"generate", "multimodal"} if card.towers else {"generate"})


class ModelSelection(Struct, frozen=True):
    """What is wanted of a model; texts may be parts, in any case."""

    architecture: str | None = None
    weight_format: str | None = None
    min_parameters: int | None = None
    max_parameters: int | None = None
    license: str | None = None
    use: str | None = None
    sort: str = "name"

    @classmethod
    def of(
        cls,
        *,
        architecture: str | None = None,
        weight_format: str | None = None,
        min_parameters: str | None = None,
        max_parameters: str | None = None,
        license: str | None = None,
        use: str | None = None,
        sort: str = "name",
    ) -> ModelSelection:
        """From what a user wrote. Raises `CardError` with one line."""
        if use is not None and use not in USES:
            raise CardError(f"Unknown use {shorten(use)}; one of {', '.join(USES)}")
        if sort not in SORTS:
            raise CardError(f"Cannot sort by {shorten(sort)}; by {', '.join(SORTS)}")
        least, most = (_count(text) for text in (min_parameters, max_parameters))
        return cls(architecture, weight_format, least, most, license, use, sort)

    def select(self, cards: Iterable[ModelCard]) -> list[ModelCard]:
        """Those of `cards` that are meant, in order."""
        found = [card for card in cards if self._matches(card)]
        key = _KEYS.get(self.sort)
        if key is not None:
            found.sort(key=key, reverse=True)
        return found

    def _matches(self, card: ModelCard) -> bool:
        texts = (
            (self.architecture, f"{card.architecture} {card.model_type}"),
            (self.weight_format, f"{card.format_kind} {card.quantization or ''}"),
            (self.license, card.license or ""),
        )
        if not all(part is None or part.lower() in text.lower() for part, text in texts):
            return False
        if self.use is not None and self.use not in uses_of(card):
            return False
        if self.min_parameters is not None and card.parameters < self.min_parameters:
            return False
        return self.max_parameters is None or card.parameters <= self.max_parameters


def _count(text: str | None) -> int | None:
    """`7B` as a number of parameters."""
    if text is None:
        return None
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise CardError(f'{shorten(text)} is no number of parameters such as "8B" or "350M"')
    return round(float(match[1]) * _UNITS[match[2].lower()])
