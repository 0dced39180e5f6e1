"""More machines of one kind, where one does not hold a model."""

from __future__ import annotations

import re

from msgspec.structs import replace

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled, settle


def enough_nodes(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release, most: int
) -> Rig:
    """As many machines like `rig` as `card` needs to be served as asked, at most `most`.

    `rig` itself if no such number does. Raises `PlanError` for a rig of several machines.
    """
    if most < 1:
        raise PlanError(f"--nodes must be at least 1; {most} was asked for")
    if rig.nodes > 1:
        raise PlanError(f"{rig.spec} says how many machines there are: leave --nodes out")
    for count in range(1, most + 1):
        machines = _machines(rig, count)
        if isinstance(settle(card, machines, requirements, release), Settled):
            return machines
    return rig


def _machines(rig: Rig, count: int) -> Rig:
    if count == 1:
        return rig
    one = rig.spec if re.match(r"\d+x", rig.spec) else f"1x{rig.spec}"
    return replace(rig, nodes=count, spec=f"{count}x{one}")
