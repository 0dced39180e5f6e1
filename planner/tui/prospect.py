"""What a validation is expected to come to, before it runs."""

from __future__ import annotations

from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import PlanError
from planner.launch.estimate import StartTime, start_time
from planner.launch.history import past_runs
from planner.launch.preflight import Preflight
from planner.speed.serving import SpeedEstimate, predict_speed

_PAST_RUNS: Final = 50  # that are looked through for how long a start took


class Prospect(Struct, frozen=True):
    """How long the start may take, and the speeds that are measured; none where none is modelled.

    Speeds are those of one request at a time, and of as many at once as it is then asked.
    """

    start: StartTime | None = None
    speeds: tuple[SpeedEstimate, ...] = ()


def prospect(preflight: Preflight) -> Prospect:
    """That of a launch. Reads earlier runs from the disk."""
    memory = preflight.check.memory
    if memory is None:
        return Prospect()
    start = start_time(memory, (past.report for past in islice(past_runs(), _PAST_RUNS)))
    load = preflight.workload
    try:
        speeds = tuple(
            predict_speed(memory, replace(load, concurrency=at_once))
            for at_once in dict.fromkeys((1, load.concurrency))
        )
    except PlanError:
        speeds = ()
    return Prospect(start, speeds)
