"""What settings name, opened: the rig, the model's card, its draft, the release."""

from __future__ import annotations

from msgspec import Struct

from hardware_db import Rig, find_rig
from model_cards import ModelCard, open_card
from model_cards.known_drafts import draft_card, find_draft
from model_cards.sources.bundled import find_entry
from planner.engine.releases import Release, find_release
from planner.settings import Settings


class Inputs(Struct, frozen=True):
    """Everything the planner is asked with, beside vLLM's settings."""

    rig: Rig
    card: ModelCard
    draft: ModelCard | None
    release: Release


class Library:
    """Cards and rigs by name, kept once opened.

    What the bundled catalogue holds is opened without the network; for anything else the Hub is
    asked, unless `offline`.
    """

    def __init__(self, *, offline: bool = False) -> None:
        self.offline = offline
        self._cards: dict[str, ModelCard] = {}
        self._drafts: dict[tuple[str, str], ModelCard] = {}
        self._detected: dict[str, Rig] = {}

    def ready(self, settings: Settings) -> Inputs | None:
        """The inputs if they can be had at once: without the network, a cache or a driver."""
        names = [settings.model]
        if settings.draft is not None and find_draft(settings.draft) is None:
            names.append(settings.draft)
        if any(name not in self._cards and find_entry(name) is None for name in names):
            return None
        if _is_detected(settings.gpu) and settings.gpu not in self._detected:
            return None
        return self.open(settings)

    def open(self, settings: Settings) -> Inputs:
        """The inputs, however long that takes.

        Raises `HardwareError`, `CardError` or `PlanError` with one line for the user.
        """
        rig, release = self.rig(settings.gpu), find_release(settings.vllm)
        card = self.card(settings.model)
        draft = self.draft(settings.draft, card) if settings.draft else None
        return Inputs(rig, card, draft, release)

    def draft(self, model: str, target: ModelCard) -> ModelCard:
        """The card of a draft; one that is known needs no network."""
        if (model, target.model_id) not in self._drafts:
            known = find_draft(model)
            found = draft_card(known, target) if known is not None else None
            self._drafts[model, target.model_id] = found or self.card(model)
        return self._drafts[model, target.model_id]

    def card(self, model: str) -> ModelCard:
        """A model's card."""
        held = self._cards.get(model)
        if held is None:
            bundled = find_entry(model) is not None
            held = self._cards[model] = open_card(model, offline=bundled or self.offline)
        return held

    def rig(self, gpu: str) -> Rig:
        """A rig. One that is detected is asked for once."""
        if not _is_detected(gpu):
            return find_rig(gpu)
        if gpu not in self._detected:
            self._detected[gpu] = find_rig(gpu)
        return self._detected[gpu]


def _is_detected(gpu: str) -> bool:
    return gpu.strip().lower().startswith("auto") or gpu.strip().lower() == "cpu"
