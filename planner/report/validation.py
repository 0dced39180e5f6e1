"""What `vplan validate --json` prints, and report.json of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from planner.calibration import Observation
from planner.launch.load import LevelResult
from planner.launch.metrics import Speculation
from planner.launch.terms import Term
from planner.launch.tries import Try
from planner.launch.validation import Validation
from planner.report.base import QuantityReport, StrictModel
from planner.report.hardware import RigReport
from planner.report.launch_log import FailureReport, LaunchFactsReport
from planner.report.models import ModelReport


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
    seconds: float = 0.0

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
            seconds=result.seconds,
        )


class DraftCountersReport(StrictModel):
    """Counters of speculative decoding over all requests."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    acceptance_length: float | None
    acceptance_rates: list[float]

    @classmethod
    def of(cls, speculation: Speculation) -> DraftCountersReport:
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


class SpentReport(StrictModel):
    """Seconds of the parts of a validation; null for those that it did not get to."""

    start: float | None
    requests: float | None = Field(description="the first ones")
    load: float | None = Field(description="with the start of the program that sends it")
    levels: float | None = Field(description="of which requests were sent")
    stop: float | None


class ValidationReport(StrictModel):
    """`vplan validate --json`, and report.json of a run."""

    schema_version: Literal[1] = 1
    kind: Literal["validation"] = "validation"
    vllm: str
    began: str
    command: str
    rig: RigReport
    model: ModelReport
    verdict: Literal["inside", "outside", "failed"]
    ready_seconds: float | None
    terms: list[TermReport]
    completions: list[CompletionReport]
    facts: LaunchFactsReport
    failure: FailureReport | None
    kept: KeptReport | None
    folder: str
    usage: UsageReport | None = None
    levels: list[LevelReport] = Field(default_factory=list)
    speculation: DraftCountersReport | None = None
    tries: list[TryReport] = Field(default_factory=list, description="with --retry: all of them")
    uid: str = ""
    gpu: str = ""
    observations: list[ObservationReport] = Field(default_factory=list)
    spent: SpentReport | None = None
    unseen: list[str] = Field(
        default_factory=list, description="parts of the memory that nothing told of"
    )

    @classmethod
    def of(cls, run: Validation) -> ValidationReport:
        """From the library's."""
        check = run.preflight.check
        answers = run.probe.completions if run.probe is not None else ()
        kept = run.kept
        return cls(
            vllm=run.preflight.installation.release,
            began=run.began.isoformat(timespec="seconds"),
            command=run.preflight.shown(),
            rig=RigReport.of(check.rig),
            model=ModelReport.of(check.card),
            verdict=run.verdict.value,
            ready_seconds=run.ready_seconds,
            terms=[TermReport.of(term) for term in run.terms],
            completions=[CompletionReport.like(answer) for answer in answers],
            facts=LaunchFactsReport.of(run.facts),
            failure=FailureReport.of(run.failure, run.facts) if run.failure is not None else None,
            kept=(
                KeptReport(pid=kept.pid, url=kept.url, key_file=str(kept.key_file))
                if kept is not None
                else None
            ),
            folder=str(run.folder),
            usage=UsageReport.like(run.usage),
            levels=[LevelReport.of(each) for each in run.probe.levels] if run.probe else [],
            speculation=(
                DraftCountersReport.of(run.probe.speculation)
                if run.probe is not None and run.probe.speculation is not None
                else None
            ),
            uid=run.uid,
            gpu=check.rig.smallest.gpu.slug,
            unseen=list(run.unseen),
            spent=SpentReport.like(run.spent),
            observations=[ObservationReport.of(seen) for seen in run.observations],
        )
