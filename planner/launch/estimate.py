"""How long a start may take: from earlier runs of the model here, else from its size."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

from msgspec import Struct

from planner.memory.plan import MemoryPlan
from planner.report.validation import ValidationReport

# Seconds, a low and a high figure each, of vLLM 0.32 on this project's machines and as published:
# imports and the engine's processes; compilation and graphs; weights from a disk, a second a GB.
_ALWAYS: Final = (15.0, 150.0)
_COMPILES: Final = (20.0, 180.0)
_PER_GB: Final = (0.2, 3.0)
_SPREAD: Final = (0.6, 2.0)  # around what earlier runs took


class StartTime(Struct, frozen=True):
    """Seconds until ready, without a download; `why` says what they go by."""

    low: float
    high: float
    why: str


def start_time(memory: MemoryPlan, past: Iterable[ValidationReport]) -> StartTime:
    """The start of a launch that is planned."""
    model, gpu = memory.card.model_id, memory.rig.smallest.gpu.slug
    seconds = [
        report.ready_seconds
        for report in past
        if report.model.id == model and report.gpu == gpu and report.ready_seconds is not None
    ]
    if seconds:
        middle = median(seconds)
        runs = f"{len(seconds)} earlier run{'s' if len(seconds) > 1 else ''} of it here"
        return StartTime(_SPREAD[0] * middle, _SPREAD[1] * middle, runs)
    size = sum(rank.weights.value for rank in memory.ranks) / 1e9
    low, high = (always + size * each for always, each in zip(_ALWAYS, _PER_GB, strict=True))
    if not memory.config.given.enforce_eager:
        low, high = low + _COMPILES[0], high + _COMPILES[1]
    return StartTime(low, high, "its size alone: no earlier run of it here")
