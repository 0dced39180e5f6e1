"""`--plot`: where a picture of a plan's speed goes."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from planner.memory.plan import MemoryPlan
from planner.speed.capacity import Aims
from planner.workload import Workload


class Drawing(Struct, frozen=True):
    """Where a plot goes."""

    path: Path
    force: bool

    def of(self, memory: MemoryPlan, workload: Workload, aims: Aims) -> None:
        """Draw a plan's speed. Raises `PlanError` where that cannot be."""
        from planner.speed.plot import draw  # few ask for it

        draw(self.path, memory, aims.on(workload), force=self.force)
