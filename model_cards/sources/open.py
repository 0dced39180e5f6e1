"""One model reference to its card, whichever source has it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from model_cards.card import ModelCard
from model_cards.config import shorten
from model_cards.errors import (
    CardError,
    GatedModel,
    HubUnavailable,
    UnknownModel,
    UnsupportedModel,
)
from model_cards.sources.bundled import find_entry, near_misses, open_bundled
from model_cards.sources.local import looks_like_path, open_folder

_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def open_card(reference: str, *, revision: str | None = None, offline: bool = False) -> ModelCard:
    """The card of a model: a folder, or a Hub id in any case.

    Sources in order: a folder, huggingface_hub's cache, the Hub, and where that does not answer
    the bundled snapshot, which the card's notes then say. `offline` leaves the Hub out, as
    HF_HUB_OFFLINE does. Raises `CardError` with one line for the user.
    """
    if not reference.strip():
        raise UnknownModel("the model's name is empty; give a folder or an id like Qwen/Qwen3-8B")
    if looks_like_path(reference):
        return open_folder(reference)
    if not _HUB_ID.fullmatch(reference):
        raise UnknownModel(
            f"{shorten(reference)} is neither a folder nor a Hub model id such as Qwen/Qwen3-8B"
        )
    entry = find_entry(reference)
    model_id = entry.model_id if entry is not None else reference
    from model_cards.sources import hub

    unsized: UnsupportedModel | None = None
    try:
        cached = hub.open_cached(model_id, revision)
        if cached is not None:
            return cached
    except UnsupportedModel as error:  # the Hub may know the size that the cache does not
        unsized = error
    problem: CardError
    asked_offline = offline or hub.is_offline()
    if asked_offline:
        problem = HubUnavailable("offline")
    else:
        try:
            return hub.open_online(model_id, revision)
        except (HubUnavailable, GatedModel, UnknownModel) as error:
            problem = error
    # A revision asked for by name is not what the snapshot holds.
    bundled = open_bundled(model_id) if revision is None else None
    if bundled is None:
        raise unsized or _unknown(reference, revision, problem)
    if asked_offline:
        return bundled
    note = f"{problem}; the bundled snapshot of its config is used"
    return replace(bundled, notes=(*bundled.notes, note))


def _unknown(reference: str, revision: str | None, problem: CardError) -> CardError:
    if isinstance(problem, GatedModel):
        return GatedModel(f"{reference}: {problem}.")
    if revision is not None:
        return UnknownModel(f"Cannot open revision {revision} of {reference}: {problem}.")
    close = near_misses(reference)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    if isinstance(problem, HubUnavailable):
        return UnknownModel(
            f"Unknown model {reference}: not in the bundled catalogue, and {problem}.{hint}"
        )
    return UnknownModel(f"Unknown model {reference}: {problem}.{hint}")
