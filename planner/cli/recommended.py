"""`vplan recommend --format`: what was found, as something to deploy."""

from __future__ import annotations

from hardware_db import Rig
from model_cards import ModelCard
from planner.cli.console import fail
from planner.cli.export import Target
from planner.cli.format import chance
from planner.cli.status import Status
from planner.command.exports import export
from planner.command.render import render_command
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.recommendation.rank import recommend as rank
from planner.recommendation.requirements import Requirements
from planner.recommendation.search import search
from planner.recommendation.settle import Settled, Unfit, settle


def put_out(
    wanted: Target,
    card: ModelCard | None,
    rig: Rig | None,
    requirements: Requirements,
    release: Release,
) -> int:
    """Put out the best answer, which is that for `card` unless it is None; the exit status."""
    if rig is None:
        raise PlanError(f"--format {wanted.format} is a launch on certain hardware: give it, --gpu")
    if card is not None:
        result = _answer(card, rig, requirements, release)
        if not isinstance(result, Settled):
            fail(f"{card.model_id} does not fit {rig.spec} as asked: {result.reason}")
            return Status.NO
        return _put_out(wanted, result)
    choices = rank(rig, requirements, vllm=release).choices
    if not choices:
        fail(f"no known model fits {rig.spec}")
        return Status.NO
    return _put_out(wanted, choices[0].settled)


def _answer(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> Settled | Unfit:
    """The model as it was named, or the checkpoint that serves an objective best."""
    if requirements.objective is not None:
        found = search(card, rig, requirements, release)
        return found.pick.settled if found.pick is not None else found.named
    return settle(card, rig, requirements, release)


def _put_out(wanted: Target, settled: Settled) -> int:
    memory = settled.memory
    command = render_command(memory, settled.reasons)
    wanted.write(export(memory, wanted.format, command=command))
    if settled.sure:
        return Status.YES
    starts = memory.starts
    risk = chance(starts.chance_of_refusal)
    fail(f"{memory.card.model_id} may not start on {memory.rig.spec} ({risk}): {starts.reason}")
    return Status.RISKY
