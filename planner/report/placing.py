"""What `vplan recommend --gpu RIG --why MODEL --json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.recommendation.placing import Placing
from planner.report.base import StrictModel
from planner.report.candidates import RejectedReport
from planner.report.plan import PlanReport


class PlacingReport(StrictModel):
    """`vplan recommend --gpu RIG --why MODEL --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["placing"] = "placing"
    model: str
    place: int | None
    ranked: int | None = Field(description="models that work, on this hardware")
    reason: str
    rejected: list[RejectedReport]
    plan: PlanReport | None

    @classmethod
    def of(cls, found: Placing) -> PlacingReport:
        """From the library's."""
        choice = found.choice
        return cls(
            model=found.model_id,
            place=found.place,
            ranked=found.ranked,
            reason=found.reason,
            rejected=[RejectedReport.of(each) for each in found.rejected],
            plan=PlanReport.of(choice.settled) if choice is not None else None,
        )
