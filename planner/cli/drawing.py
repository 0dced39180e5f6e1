"""`--plot`: where a picture of a plan's speed goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from planner.memory.plan import MemoryPlan
from planner.speed.capacity import Aims
from planner.workload import Workload


@dataclass(frozen=True, slots=True)
class Drawing:
    """Where a plot goes."""

    path: Path
    force: bool

    def of(self, memory: MemoryPlan, workload: Workload, aims: Aims) -> None:
        """Draw a plan's speed. Raises `PlanError` where that cannot be."""
        from planner.speed.plot import draw  # few ask for it

        draw(self.path, memory, aims.on(workload), force=self.force)
