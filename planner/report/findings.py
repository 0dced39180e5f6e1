"""Findings and what mends them, as JSON."""

from __future__ import annotations

from typing import Literal

from planner.command.render import render_command
from planner.diagnosis.remedies import Remedy
from planner.findings import Finding
from planner.report.base import QuantityReport, StrictModel


class FindingReport(StrictModel):
    """What is wrong, or worth knowing."""

    code: str
    severity: Literal["error", "warning", "info"]
    text: str
    fix: str | None

    @classmethod
    def of(cls, finding: Finding) -> FindingReport:
        """From the library's."""
        return cls(
            code=finding.code,
            severity=finding.severity.value,
            text=finding.text,
            fix=finding.fix,
        )


class RemedyReport(StrictModel):
    """A change after which it starts."""

    change: str
    command: list[str]
    kv_tokens: QuantityReport
    max_concurrency: QuantityReport

    @classmethod
    def of(cls, remedy: Remedy) -> RemedyReport:
        """From the library's."""
        return cls(
            change=remedy.change,
            command=render_command(remedy.memory).argv,
            kv_tokens=QuantityReport.of(remedy.memory.kv_tokens),
            max_concurrency=QuantityReport.of(remedy.memory.max_concurrency),
        )
