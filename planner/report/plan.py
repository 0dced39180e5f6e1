"""A checkpoint with settings that work, and its command, as JSON."""

from __future__ import annotations

from planner.command.render import render_command
from planner.recommendation.settle import Settled
from planner.report.base import StrictModel
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

    @classmethod
    def of(cls, settled: Settled) -> PlanReport:
        """From settled settings."""
        return cls(
            model=ModelReport.of(settled.memory.card),
            memory=MemoryReport.of(settled.memory),
            speed=SpeedReport.of(settled.speed) if settled.speed is not None else None,
            command=CommandReport.of(settled),
        )
