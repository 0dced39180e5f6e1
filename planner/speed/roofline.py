"""The roofline of a launch: what bytes alone and operations alone would allow, at any batch.

    reading   = batch / (bytes of a step / bandwidth)
    computing = peak rate / operations of a token

Up to the ridge, where both are equal, a larger batch costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.memory.plan import MemoryPlan
from planner.speed.serving import SpeedEstimate, predict_speed
from planner.speed.step import StepModel
from planner.workload import Workload


class RoofPoint(Struct, frozen=True):
    """A launch with so many requests at once, in tokens per second of all of them together."""

    concurrency: int
    reading: float  # were nothing but bytes over the bandwidth in the way
    computing: float | None  # were nothing but operations; None: the rate is not known
    speed: SpeedEstimate

    @property
    def roof(self) -> float:
        """The lower of the two."""
        return self.reading if self.computing is None else min(self.reading, self.computing)

    @property
    def reads_most(self) -> bool:
        """Whether it is the bytes that bound it."""
        return self.computing is None or self.reading <= self.computing


def roofline(
    memory: MemoryPlan, workload: Workload, concurrency: Sequence[int], *, task: str = "chat"
) -> tuple[RoofPoint, ...]:
    """The load with each number of requests, without drafts in the roofs.

    Raises `MissingFact` as `predict_speed` does.
    """
    model = StepModel.of(memory)
    replicas = memory.config.given.data_parallel_size
    computing = None
    least = model.least_compute_seconds
    if least:
        computing = replicas / least
    context = workload.prompt_tokens + workload.output_tokens / 2
    points = []
    for requests in concurrency:
        load = Workload(workload.prompt_tokens, workload.output_tokens, requests)
        speed = predict_speed(memory, load, task=task)
        batch = requests / replicas
        reading = requests / float(model.seconds(batch, context).ceiling)
        points.append(RoofPoint(requests, reading, computing, speed))
    return tuple(points)
