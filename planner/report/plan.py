"""A checkpoint with settings that work, and its command, as JSON."""

from __future__ import annotations

from pydantic import Field

from planner.command.render import render_command
from planner.diagnosis.of_plan import plan_findings
from planner.recommendation.settle import Settled
from planner.report.base import StrictModel
from planner.report.findings import FindingReport
from planner.report.memory import MemoryReport
from planner.report.models import ModelReport
from planner.report.speed import SpeedReport


class FlagReport(StrictModel):
    """One option of the command."""

    name: str
    value: str | None
    reason: str


class CommandReport(StrictModel):
    """The command to run."""

    argv: list[str]
    flags: list[FlagReport]

    @classmethod
    def of(cls, settled: Settled) -> CommandReport:
        """The command of settled settings."""
        command = render_command(settled.memory, settled.reasons)
        flags = [FlagReport(name=f.name, value=f.value, reason=f.reason) for f in command.flags]
        return cls(argv=command.argv, flags=flags)


class PlanReport(StrictModel):
    """One checkpoint with settings that work."""

    model: ModelReport
    memory: MemoryReport
    speed: SpeedReport | None
    command: CommandReport
    findings: list[FindingReport] = Field(
        default_factory=list, description="what follows from the plan and no number of it says"
    )

    @classmethod
    def of(cls, settled: Settled) -> PlanReport:
        """From settled settings."""
        return cls(
            model=ModelReport.of(settled.memory.card),
            memory=MemoryReport.of(settled.memory),
            speed=SpeedReport.of(settled.speed) if settled.speed is not None else None,
            command=CommandReport.of(settled),
            findings=[FindingReport.of(each) for each in plan_findings(settled.memory)],
        )
