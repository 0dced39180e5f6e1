"""What `vplan compare --json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.comparison import Comparison, Side
from planner.report.base import QuantityReport, StrictModel
from planner.report.hardware import RigReport
from planner.report.memory import MemoryReport
from planner.report.models import ModelReport
from planner.report.speed import SpeedReport


class SideReport(StrictModel):
    """One of two plans."""

    name: str
    vllm: str
    rig: RigReport
    model: ModelReport
    starts: Literal["yes", "risky", "no"]
    problem: str | None
    memory: MemoryReport | None
    speed: SpeedReport | None

    @classmethod
    def of(cls, side: Side) -> SideReport:
        """From the library's."""
        return cls(
            name=side.name,
            vllm=side.release.name,
            rig=RigReport.of(side.rig),
            model=ModelReport.of(side.card),
            starts=side.starts.value,
            problem=side.problem or None,
            memory=MemoryReport.of(side.memory) if side.memory is not None else None,
            speed=SpeedReport.of(side.speed) if side.speed is not None else None,
        )


class RowReport(StrictModel):
    """A number of both sides."""

    name: str
    unit: str
    one: QuantityReport | None
    other: QuantityReport | None
    change: float | None = Field(description="the other against the one: 0.5 is half as much again")


class DifferenceReport(StrictModel):
    """A setting that the two do not share."""

    setting: str
    one: str
    other: str


class ComparisonReport(StrictModel):
    """`vplan compare A B --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["comparison"] = "comparison"
    one: SideReport
    other: SideReport
    rows: list[RowReport]
    differences: list[DifferenceReport]

    @classmethod
    def of(cls, found: Comparison) -> ComparisonReport:
        """From the library's."""
        rows = [
            RowReport(
                name=row.name,
                unit=row.unit.value,
                one=QuantityReport.of(row.one) if row.one is not None else None,
                other=QuantityReport.of(row.other) if row.other is not None else None,
                change=row.change,
            )
            for row in found.rows
        ]
        return cls(
            one=SideReport.of(found.one),
            other=SideReport.of(found.other),
            rows=rows,
            differences=[DifferenceReport.like(each) for each in found.differences],
        )
