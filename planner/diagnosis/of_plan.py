"""What follows from a plan and none of its numbers says, whoever made the plan."""

from __future__ import annotations

from collections.abc import Iterator

from planner.diagnosis.formats import about_formats
from planner.diagnosis.later_risks import later_risks
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan


def plan_findings(memory: MemoryPlan) -> Iterator[Finding]:
    """Formats that are only stored, and what may run out under load.

    What a smaller batch would save is left out, as it is for who asks what to change, and what the
    plan's own notes say.
    """
    yield from about_formats(memory)
    yield from (each for each in later_risks(memory) if each.severity is not Severity.INFO)
