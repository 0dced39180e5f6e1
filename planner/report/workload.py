"""What was asked for, as JSON."""

from __future__ import annotations

from planner.recommendation.requirements import Requirements
from planner.report.base import StrictModel


class WorkloadReport(StrictModel):
    """What was asked for."""

    use_case: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    context: int | None

    @classmethod
    def of(cls, requirements: Requirements) -> WorkloadReport:
        """From the library's requirements."""
        workload = requirements.workload
        return cls(
            use_case=requirements.use_case,
            prompt_tokens=workload.prompt_tokens,
            output_tokens=workload.output_tokens,
            concurrency=workload.concurrency,
            context=requirements.context,
        )
