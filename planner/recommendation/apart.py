"""A server on each machine, where one machine holds the model, against one launch over all."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hardware_db import Rig
from planner.findings import Finding, Severity
from planner.recommendation.requirements import Objective
from planner.recommendation.search import Search
from planner.recommendation.settle import Settled, settle

# They are simpler to run: so many times as much as one launch writes is enough to name them.
_NEARLY_AS_MUCH: Final = 0.9
_SINGLE: Final = (Objective.LATENCY, Objective.CONTEXT)


def servers_apart(found: Search, rig: Rig) -> Finding | None:
    """What one server on each machine behind a router would write, where that is nearly as much.

    They need no network between the machines. None for objectives of a single request.
    """
    pick, requirements = found.pick, found.requirements
    load = requirements.workload
    if pick is None or pick.settled.speed is None or requirements.aim in _SINGLE:
        return None
    if pick.settled.gpus <= len(rig.devices) or load.concurrency < rig.nodes:
        return None
    each = replace(load, concurrency=-(-load.concurrency // rig.nodes))
    alone = settle(
        pick.variant.card,
        _one_machine(rig),
        replace(requirements, workload=each),
        pick.settled.memory.release,
        pick.variant.quantization,
    )
    if not isinstance(alone, Settled) or not alone.sure or alone.speed is None:
        return None
    together, apart = pick.settled.speed.total.value, rig.nodes * alone.speed.total.value
    if apart < _NEARLY_AS_MUCH * together:
        return None
    text = (
        f"one machine holds the model: {rig.nodes} servers of their own ({alone.layout} on each), "
        f"behind a router, write {apart:.0f} tok/s in total where one launch writes "
        f"{together:.0f}, and need no network between the machines"
    )
    return Finding("servers_apart", Severity.INFO, text)


def _one_machine(rig: Rig) -> Rig:
    return replace(rig, nodes=1, spec=rig.spec.partition("x")[2])
