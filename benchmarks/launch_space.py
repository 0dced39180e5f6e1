"""Launches over all that is bundled: every family and weight format, on every kind of rig.

Of each architecture and format the smallest model stands for the others; its settings are those
that vplan recommends, with and without speculative decoding, and as replicas on several GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import find_rig
from model_cards import ModelCard
from model_cards.sources.bundled import entries, open_bundled
from planner.engine.releases import find_release
from planner.engine_config import SpeculativeConfig
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.layouts import replicated
from planner.recommendation.requirements import Requirements
from planner.recommendation.settings import usual_settings
from planner.recommendation.settle import Settled, settle
from planner.recommendation.settled import MOST_AT_ONCE
from planner.workload import use_case_workload

RIGS = (
    "t4", "3060", "4090", "2x3090", "4xl40s", "a100-80g", "8xa100-80g", "h100-sxm", "8xh100-sxm",
    "8xb200", "2x8xh100-sxm", "gb10", "8xmi300x", "cpu",
)  # fmt: skip


class Launch(Struct, frozen=True):
    """A planned launch and what it stands for."""

    rig: str
    speculation: str  # "none", "ngram", "mtp"; "replicas": none, with data parallelism
    memory: MemoryPlan

    @property
    def card(self) -> ModelCard:
        return self.memory.card


def representatives() -> list[ModelCard]:
    """The smallest model of each architecture and weight format, modelled ones first."""
    found: dict[tuple[str, str], ModelCard] = {}
    for entry in entries():
        card = open_bundled(entry.model_id)
        if card is None or card.head is not None:  # a head is no model of its own
            continue
        key = card.architecture, card.format_kind
        known = found.get(key)
        if known is None or _rank(card) < _rank(known):
            found[key] = card
    return list(found.values())


def _rank(card: ModelCard) -> tuple[bool, int]:
    return not card.exact, card.weight_bytes


def launches(
    release: str, rigs: Sequence[str] = RIGS, cards: Sequence[ModelCard] | None = None
) -> Iterator[Launch]:
    """Every launch that a plan can be made for."""
    known = find_release(release)
    requirements = Requirements(use_case_workload("chat", 1), "chat", None)
    for card in representatives() if cards is None else cards:
        for name in rigs:
            rig = find_rig(name)
            try:
                settled = settle(card, rig, requirements, known)
            except PlanError:
                continue
            if not isinstance(settled, Settled):
                continue
            yield Launch(name, "none", settled.memory)
            for layout in replicated(card, rig, MOST_AT_ONCE):
                config, _ = usual_settings(card, rig, requirements, known, layout)
                try:
                    memory = plan_memory(card, rig, config, vllm=known)
                except PlanError:
                    continue
                if memory.starts.answer is not Answer.NO:
                    yield Launch(name, "replicas", memory)
                    break
            for method in ("ngram", *sorted({draft.method for draft in card.drafts})):
                speculative = SpeculativeConfig(method, 2)
                config = replace(settled.config, speculative_config=speculative)
                try:
                    memory = plan_memory(card, rig, config, vllm=known)
                except PlanError:
                    continue
                if memory.starts.answer is not Answer.NO and not memory.refusals:
                    yield Launch(name, method, memory)
