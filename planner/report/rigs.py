"""What `vplan recommend --model MODEL --json` prints without a GPU."""

from __future__ import annotations

from typing import Literal

from planner.recommendation.rigs import RigChoice
from planner.report.base import StrictModel
from planner.report.hardware import RigReport
from planner.report.models import ModelReport
from planner.report.plan import PlanReport
from planner.report.workload import WorkloadReport


class RigChoiceReport(StrictModel):
    """One rig that serves a model."""

    rig: RigReport
    usd_per_hour: float | None
    plan: PlanReport

    @classmethod
    def of(cls, choice: RigChoice) -> RigChoiceReport:
        """From the library's choice."""
        return cls(
            rig=RigReport.of(choice.settled.memory.rig),
            usd_per_hour=choice.usd_per_hour,
            plan=PlanReport.of(choice.settled),
        )


class RigsReport(StrictModel):
    """`vplan recommend --model MODEL --json` without a GPU: which rigs serve it."""

    schema_version: Literal[1] = 1
    kind: Literal["rigs for model"] = "rigs for model"
    vllm: str
    model: ModelReport
    workload: WorkloadReport
    rigs: list[RigChoiceReport]
