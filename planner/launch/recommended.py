"""The recommended command of a model for the vLLM and the hardware of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from hardware_db import find_rig
from model_cards import ModelCard
from planner.command.render import render_command
from planner.engine.releases import find_release
from planner.launch.installation import find_installation
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled, Unfit, settle


def recommended_here(
    card: ModelCard, gpu: str, requirements: Requirements, launcher: Sequence[str] = ()
) -> Settled | Unfit:
    """The best settings of a model under the vLLM that would be launched.

    `gpu` is "auto" or "cpu". Raises `PlanError` where there is no vLLM, `HardwareError` where no
    GPU is found.
    """
    installation = find_installation((), launcher)
    rig = find_rig("cpu" if installation.is_cpu_build else gpu)
    return settle(card, rig, requirements, find_release(installation.release))


def command_of(settled: Settled, more: Sequence[str] = ()) -> list[str]:
    """Its words, with more options behind."""
    return [*render_command(settled.memory, settled.reasons).argv, *more]
