"""Options about speed that several commands have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from planner.memory.plan import MemoryPlan
from planner.speed.capacity import Aims
from planner.workload import Workload

RequestRate = Annotated[
    float | None,
    typer.Option(help="Requests a second, at random times, instead of users who wait for answers."),
]
MaxTtft = Annotated[
    float | None, typer.Option(help="Seconds to the first token, at most: how many users, then?")
]
MaxTpot = Annotated[
    float | None, typer.Option(help="Seconds between tokens, at most: how many users, then?")
]
SharedPrefix = Annotated[
    float,
    typer.Option(help="Share of a prompt that others have too (0 to 1): cached, not computed."),
]
PricePerHour = Annotated[
    float | None, typer.Option(help="Of all GPUs together: what do a million tokens cost?")
]
Plot = Annotated[
    Path | None,
    typer.Option(help="Draw the roofline, and latency against throughput: FILE.svg or FILE.png."),
]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Where a plot goes."""

    path: Path
    force: bool

    def of(self, memory: MemoryPlan, workload: Workload, aims: Aims) -> None:
        """Draw a plan's speed. Raises `PlanError` where that cannot be."""
        from planner.speed.plot import draw  # few ask for it

        draw(self.path, memory, aims.on(workload), force=self.force)
