"""Whether speculative decoding would pay for settings that were recommended."""

from __future__ import annotations

from planner.engine.rules import is_emulated
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled
from planner.speed.acceptance import task_of
from planner.speed.speculation_choice import SpeculationChoice, choose_speculation
from planner.speed.step import MissingFact


def speculation_or_none(settled: Settled, requirements: Requirements) -> SpeculationChoice | None:
    """The speculative choice for a plan.

    None where there is no speed to compare, and where the settings speculate already.
    """
    memory = settled.memory
    if settled.config.speculative_config is not None:
        return None
    if is_emulated(memory.card, memory.device) or not memory.card.converses:
        return None
    workload = settled.speed.workload if settled.speed is not None else requirements.workload
    try:
        return choose_speculation(memory, workload, task=task_of(requirements.use_case))
    except MissingFact:
        return None
