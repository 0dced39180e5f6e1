"""What a list to pick from offers for what was typed: GPUs, models, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from textual.fuzzy import Matcher

from hardware_db import HardwareError, all_gpus, find_rig
from model_cards import ModelCard
from model_cards.sources.bundled import entries, find_entry
from model_cards.sources.local import looks_like_path
from planner.cli.format import short_count
from planner.errors import PlanError
from planner.settings import Settings
from planner.tui.knobs import variants
from planner.tui.speculation_knob import NONE, config_of, speculation, written
from planner.tui.speculation_knob import known as known_drafts

_MOST: Final = 100
_MOST_FOLDERS: Final = 500


class Choice(Struct, frozen=True):
    """One entry of a list: what is written into the knob, and a word on it."""

    text: str
    note: str


class Choices(Struct, frozen=True):
    """The entries for a query, best first, and a line on the query itself."""

    entries: tuple[Choice, ...]
    line: str
    ok: bool = True


Find = Callable[[str], Choices]


def gpus(query: str) -> Choices:
    """What is written, if it is a rig; then cards whose names resemble it."""
    known = [Choice(gpu.slug, gpu.name) for gpu in all_gpus()]
    if not query.strip():
        return Choices((Choice("auto", "what is in this machine"), *known), "any GPU, or several")
    if query.strip() == "auto":
        return Choices((Choice("auto", "what is in this machine"),), "detects")
    found = tuple(_ranked(query, known))
    try:
        rig = find_rig(query)
    except HardwareError as error:
        return Choices(found, str(error), ok=False)
    written = Choice(rig.spec, rig.describe())
    line = "; ".join(rig.notes) or rig.describe()
    return Choices((written, *(each for each in found if each.text != rig.spec)), line)


def models(query: str) -> Choices:
    """Models of the catalogue, folders with a config.json, and any id for the Hub."""
    query = query.strip()
    if looks_like_path(query):
        found = tuple(_folders(query))
        line = f"{len(found)} folders with a config.json" if found else "no config.json there"
        return Choices(found, line, ok=bool(found))
    known = _catalogue()
    if not query:
        return Choices(known[:_MOST], f"{len(known)} models are bundled; or a folder, or a Hub id")
    ranked = tuple(_ranked(query, known))
    if find_entry(query) is not None:
        return Choices(ranked, "bundled: needs no network")
    if query.count("/") == 1 and not query.endswith("/"):
        asked = Choice(query, "ask the Hub")
        return Choices((*ranked, asked), "not bundled: the last entry asks the Hub")
    return Choices(ranked, _found(ranked), ok=bool(ranked))


def _found(ranked: tuple[Choice, ...]) -> str:
    if len(ranked) == _MOST:
        return f"the best {_MOST}; type more"
    return f"{len(ranked)} found" if ranked else "none found"


def checkpoints(settings: Settings) -> Find:
    """The quantized copies of a model."""
    known = [Choice(name, _kind(name)) for name in variants(settings)]

    def find(query: str) -> Choices:
        found = tuple(_ranked(query, known)) if query.strip() else tuple(known)
        return Choices(found, f"{len(found)} of {len(known)}", ok=bool(found))

    return find


def _kind(name: str) -> str:
    entry = find_entry(name)
    return (entry.preset or "") if entry is not None else ""


def drafts(settings: Settings, card: ModelCard | None) -> Find:
    """Speculative methods for a model, and whatever else is written."""
    known = [Choice(NONE, "no speculative decoding")]
    if card is not None:
        for draft in known_drafts(card, settings.vllm):
            known.append(Choice(written(config_of(draft)), draft.source))
    write = speculation().write

    def find(query: str) -> Choices:
        found = tuple(_ranked(query, known)) if query.strip() else tuple(known)
        if not query.strip():
            return Choices(found, "method, tokens drafted in a step, repository of the draft")
        try:
            wanted = write(settings, query).config.speculative_config
        except PlanError as error:
            return Choices(found, str(error), ok=bool(found))
        own = Choice(written(wanted), "as written")
        others = tuple(each for each in found if each.text != own.text)
        return Choices((own, *others), f"{len(others)} known drafts")

    return find


@cache
def _catalogue() -> tuple[Choice, ...]:
    return tuple(
        Choice(
            entry.model_id,
            f"{short_count(entry.parameters)} parameters" if entry.parameters else "",
        )
        for entry in entries()
        if entry.kind != "draft"
    )


def _ranked(query: str, known: Iterable[Choice]) -> Iterator[Choice]:
    """Every word of the query must be there; the best matches first, the short ones of those."""
    matchers = [Matcher(word) for word in query.split()]
    scored = []
    for choice in known:
        whole = f"{choice.text} {choice.note}"
        scores = [max(m.match(choice.text), 0.8 * m.match(whole)) for m in matchers]
        if all(scores):
            scored.append((-sum(scores), len(choice.text), choice))
    scored.sort(key=lambda row: row[:2])
    for _, _, choice in scored[:_MOST]:
        yield choice


def _folders(query: str) -> Iterator[Choice]:
    """The folder written, and those below it or beginning like it."""
    path = Path(os.path.expanduser(query))
    try:
        if (path / "config.json").is_file():
            yield Choice(query, "this folder")
        base, start = (path, "") if path.is_dir() else (path.parent, path.name)
        for number, each in enumerate(sorted(base.iterdir())):
            if number >= _MOST_FOLDERS:
                return
            if each.name.startswith(start) and (each / "config.json").is_file():
                text = str(each)
                yield Choice(text if looks_like_path(text) else f"./{text}", "folder")
    except (OSError, ValueError):
        return
