"""How fast a command would serve, where it may start and its speed is known."""

from __future__ import annotations

from planner.diagnosis.check import Check
from planner.engine.rules import is_emulated
from planner.memory.verdict import Answer
from planner.speed.capacity import Aims, Serving, plan_serving
from planner.speed.hardware import MissingFact
from planner.workload import Workload


def serving_of(check: Check, workload: Workload, aims: Aims) -> Serving | None:
    """The speed of a command under a workload, shortened to its context; None without any."""
    memory = check.memory
    if memory is None or check.answer is Answer.NO or is_emulated(memory.card, memory.device):
        return None
    try:
        return plan_serving(memory, workload.within(memory.config.max_model_len), aims)
    except MissingFact:
        return None
