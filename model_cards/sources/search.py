"""Models by a part of their name: those of the bundled snapshot, and what the Hub finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from model_cards.config import is_total
from model_cards.sources.bundled import entries, find_entry


class Found(Struct, frozen=True):
    """One model; None is not known."""

    id: str
    source: Literal["hub", "bundled"]
    bundled: bool
    parameters: int | None
    license: str | None
    gated: bool = False
    downloads: int | None = None


def search_bundled(text: str) -> list[Found]:
    """Models of the snapshot with every word of `text` in their ids."""
    words = text.lower().split()
    return [
        Found(entry.model_id, "bundled", True, entry.parameters, entry.license)
        for entry in entries()
        if all(word in entry.model_id.lower() for word in words)
    ]


def search_hub(text: str, limit: int) -> list[Found]:
    """What the Hub finds, most downloaded first. Raises `CardError` if it does not answer."""
    from model_cards.sources.hub_client import ask

    return ask(lambda: list(_search(text, limit)))


def _search(text: str, limit: int) -> Iterator[Found]:
    from huggingface_hub import HfApi

    found = HfApi().list_models(
        search=text,
        sort="downloads",
        limit=limit,
        expand=["cardData", "downloads", "gated", "safetensors"],
    )
    for info in found:
        if not isinstance(info.id, str):
            continue
        license = getattr(info.card_data, "license", None) if info.card_data else None
        stored: Any = info.safetensors
        parameters = getattr(stored, "total", None) if stored else None
        yield Found(
            info.id,
            "hub",
            find_entry(info.id) is not None,
            parameters if is_total(parameters) else None,
            license if isinstance(license, str) else None,
            bool(info.gated),
            info.downloads if is_total(info.downloads) else None,
        )
