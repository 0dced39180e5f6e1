"""The parts of a validation's report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from planner.calibration import Observation
from planner.launch.load import LevelResult
from planner.launch.metrics import Speculation
from planner.launch.request import Completion
from planner.launch.terms import Term
from planner.launch.tries import Try
from planner.launch.usage import Usage
from planner.report import QuantityReport, StrictModel


class TermReport(StrictModel):
    """A planned quantity beside what it came to."""

    name: str
    unit: Literal["bytes", "count", "ratio", "seconds"]
    plan: QuantityReport
    measured: float
    difference: float
    inside: bool

    @classmethod
    def of(cls, term: Term) -> TermReport:
        """From the library's."""
        return cls(
            name=term.name,
            unit=term.unit.value,
            plan=QuantityReport.of(term.plan),
            measured=term.measured,
            difference=term.difference,
            inside=term.inside,
        )


class CompletionReport(StrictModel):
    """One request to the server."""

    prompt_tokens: int
    output_tokens: int
    ttft: float
    tpot: float | None

    @classmethod
    def of(cls, completion: Completion) -> CompletionReport:
        """From the library's."""
        return cls(
            prompt_tokens=completion.prompt_tokens,
            output_tokens=completion.output_tokens,
            ttft=completion.ttft,
            tpot=completion.tpot,
        )


class LevelReport(StrictModel):
    """Requests of one size, some at once, and what they came to. Times in seconds."""

    concurrency: int
    prompt_tokens: int
    output_tokens: int
    completed: int
    failed: int
    mean_ttft: float
    median_ttft: float
    mean_tpot: float | None
    median_tpot: float | None
    output_tokens_per_second: float
    by: str

    @classmethod
    def of(cls, result: LevelResult) -> LevelReport:
        """From the library's."""
        return cls(
            concurrency=result.level.concurrency,
            prompt_tokens=result.level.prompt_tokens,
            output_tokens=result.level.output_tokens,
            completed=result.completed,
            failed=result.failed,
            mean_ttft=result.mean_ttft,
            median_ttft=result.median_ttft,
            mean_tpot=result.mean_tpot,
            median_tpot=result.median_tpot,
            output_tokens_per_second=result.output_rate,
            by=result.by,
        )


class SpeculationReport(StrictModel):
    """Counters of speculative decoding over all requests."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    acceptance_length: float | None
    acceptance_rates: list[float]

    @classmethod
    def of(cls, speculation: Speculation) -> SpeculationReport:
        """From the library's."""
        return cls(
            drafts=speculation.drafts,
            draft_tokens=speculation.draft_tokens,
            accepted_tokens=speculation.accepted,
            acceptance_length=speculation.acceptance_length,
            acceptance_rates=list(speculation.acceptance_rates),
        )


class TryReport(StrictModel):
    """One of several launches: what was changed, what was run, what came of it."""

    change: str | None
    command: str
    verdict: Literal["inside", "outside", "failed", "refused"]
    reason: str


def try_reports(done: Iterable[Try]) -> list[TryReport]:
    """From the library's."""
    return [
        TryReport(
            change=this.change,
            command=this.preflight.shown(),
            verdict=this.run.verdict.value if this.run is not None else "refused",
            reason=this.reason,
        )
        for this in done
    ]


class KeptReport(StrictModel):
    """A server that was left running."""

    pid: int
    url: str
    key_file: str


class ObservationReport(StrictModel):
    """A term that plans of this GPU and release learn from, beside the fitted value."""

    term: str
    subject: str
    measured: float
    fitted: float
    formula: str

    @classmethod
    def of(cls, observation: Observation) -> ObservationReport:
        """From the library's."""
        return cls(
            term=observation.term.value,
            subject=observation.subject,
            measured=observation.measured,
            fitted=observation.fitted,
            formula=observation.formula,
        )


class UsageReport(StrictModel):
    """Memory in use (of the GPUs, or of a CPU server's processes) and power, as watched."""

    before: int | None
    peak: int | None
    after: int | None
    mean_watts: float | None
    peak_watts: float | None

    @classmethod
    def of(cls, usage: Usage) -> UsageReport:
        """From the library's."""
        return cls(
            before=usage.before,
            peak=usage.peak,
            after=usage.after,
            mean_watts=usage.mean_watts,
            peak_watts=usage.peak_watts,
        )
