"""One model reference to its card, whichever source has it."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from msgspec.structs import replace

from model_cards.card import ModelCard
from model_cards.config import shorten
from model_cards.errors import (
    CardError,
    GatedModel,
    HubUnavailable,
    UnknownModel,
    UnsupportedModel,
)
from model_cards.sources import user_catalogue
from model_cards.sources.bundled import find_entry, near_misses, open_bundled, snapshot_date
from model_cards.sources.hub_cache import is_offline
from model_cards.sources.local import looks_like_path, open_folder

_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_GGUF: Final = re.compile(r"(?P<id>[^:@]+):(?P<quant>[A-Za-z0-9][\w-]*)(?:@(?P<revision>.+))?")


def open_card(reference: str, *, revision: str | None = None, offline: bool = False) -> ModelCard:
    """The card of a model: a folder, or a Hub id in any case, also as `ID@REVISION`.

    Of GGUF a file, or as `ID:Q4_K_M`.

    Sources in order: a folder, what the user has kept, huggingface_hub's cache, the Hub, and where
    that does not answer the bundled snapshot, which the card's notes then say. `offline` leaves
    the Hub out, as HF_HUB_OFFLINE does. Raises `CardError` with one line for the user.
    """
    if not reference.strip():
        raise UnknownModel("the model's name is empty; give a folder or an id like Qwen/Qwen3-8B")
    if looks_like_path(reference):
        return open_folder(reference)
    gguf = _GGUF.fullmatch(reference)
    if gguf is not None and _HUB_ID.fullmatch(gguf["id"]):
        return _open_gguf(gguf["id"], gguf["quant"], gguf["revision"] or revision, offline)
    name, at, pinned = reference.partition("@")
    if not _HUB_ID.fullmatch(name) or (at and (not pinned or revision is not None)):
        raise UnknownModel(
            f"{shorten(reference)} is neither a folder nor a Hub model id such as Qwen/Qwen3-8B "
            "or ID@REVISION"
        )
    revision = pinned or revision
    entry = find_entry(name)
    model_id = entry.model_id if entry is not None else name
    try:
        member = user_catalogue.find(model_id, revision)
    except user_catalogue.SetAside as aside:
        try:
            card = _open(name, model_id, revision, offline)
        except CardError as error:
            error.args = (f"{str(error).removesuffix('.')}. What you kept of it: {aside}",)
            raise
        return replace(card, notes=(*card.notes, str(aside)))
    return member.card() if member is not None else _open(name, model_id, revision, offline)


def refresh_card(reference: str) -> ModelCard:
    """The card as the folder or the Hub has it now. Raises `CardError` if neither does."""
    if looks_like_path(reference):
        return open_folder(reference)
    from model_cards.sources.hub import open_online

    name, at, revision = reference.partition("@")
    if not _HUB_ID.fullmatch(name) or (at and not revision):
        raise UnknownModel(f"{shorten(reference)} is neither a folder nor a Hub model id")
    if is_offline():
        raise HubUnavailable("the Hub cannot be asked: HF_HUB_OFFLINE is set")
    entry = find_entry(name)
    return open_online(entry.model_id if entry is not None else name, revision or None)


def _open_gguf(model_id: str, quant: str, revision: str | None, offline: bool) -> ModelCard:
    """A quantization in a repository of GGUF files; only the Hub has those."""
    from model_cards.sources.hub_gguf import open_gguf_online

    if offline or is_offline():
        raise UnknownModel(
            f"Unknown model {model_id}:{quant}: GGUF files are read on the Hub alone"
        )
    try:
        return open_gguf_online(model_id, quant, revision)
    except (HubUnavailable, GatedModel, UnknownModel) as error:
        raise UnknownModel(f"Unknown model {model_id}:{quant}: {error}.") from None


def _open(name: str, model_id: str, revision: str | None, offline: bool) -> ModelCard:
    from model_cards.sources import hub

    unsized: UnsupportedModel | None = None
    try:
        cached = hub.open_cached(model_id, revision)
        if cached is not None:
            return cached
    except UnsupportedModel as error:  # the Hub may know the size that the cache does not
        unsized = error
    problem: CardError
    asked_offline = offline or is_offline()
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
        raise unsized or _unknown(name, revision, problem)
    if asked_offline:
        return bundled
    return _standing_in(bundled, problem)


def _standing_in(bundled: ModelCard, problem: CardError) -> ModelCard:
    """The bundled card for a model that the Hub did not give, with what it told all the same."""
    days = (date.today() - snapshot_date()).days
    age = f", {days} days old," if days > 0 else ""
    note = f"{problem}; the bundled snapshot of its config ({snapshot_date()}){age} is used"
    notes, size = [*bundled.notes, note], bundled.checkpoint_bytes
    if isinstance(problem, GatedModel):
        told, held = problem.parameters, bundled.checkpoint_parameters
        if told is not None and told != held:
            notes.insert(-1, f"its files hold {told:,} parameters by the Hub's count, not {held:,}")
        size = problem.checkpoint_bytes or size
    return replace(bundled, notes=tuple(notes), checkpoint_bytes=size)


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
