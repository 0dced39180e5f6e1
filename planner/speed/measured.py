"""Predicted speed corrected by what earlier runs on the GPU measured (planner/calibration.py)."""

from __future__ import annotations

from planner.calibration import Term, in_use
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity


def subject_of(memory: MemoryPlan) -> str:
    """Launches whose speed is off by the same factor: of one weight format, and way of drafting."""
    speculation = memory.config.speculation
    return memory.card.format_kind + (f", {speculation.method}" if speculation is not None else "")


def measured_times(
    memory: MemoryPlan, tpot: Quantity, ttft: Quantity | None, ceiling: float
) -> tuple[Quantity, Quantity | None]:
    """TPOT and TTFT as earlier runs would have them; no token takes less than `ceiling` seconds."""
    taught, subject = in_use(), subject_of(memory)
    gpu, release = memory.rig.smallest.gpu.slug, memory.release
    told = taught.correct(Term.TPOT, subject, tpot, gpu, release)
    if told is not tpot:
        value, low, high = (max(each, ceiling) for each in (told.value, told.low, told.high))
        tpot = Quantity(value, low, high, told.basis, told.source)
    if ttft is not None:
        ttft = taught.correct(Term.TTFT, subject, ttft, gpu, release)
    return tpot, ttft
