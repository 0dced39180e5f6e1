"""The report of a validated launch: as JSON, as Markdown, and where both are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from planner.calibration import Observation
from planner.files import write_file
from planner.launch.load import LevelResult
from planner.launch.log_report import FailureReport, LaunchFactsReport
from planner.launch.metrics import Speculation
from planner.launch.request import Completion
from planner.launch.terms import Term, Unit
from planner.launch.tries import Try
from planner.launch.usage import Usage
from planner.launch.validation import Validation
from planner.report import ModelReport, QuantityReport, RigReport, StrictModel

REPORT: Final = "report.json"


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
    speculation: SpeculationReport | None = None
    tries: list[TryReport] = Field(default_factory=list, description="with --retry: all of them")
    uid: str = ""
    gpu: str = ""
    observations: list[ObservationReport] = Field(default_factory=list)

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
            completions=[CompletionReport.of(answer) for answer in answers],
            facts=LaunchFactsReport.of(run.facts),
            failure=FailureReport.of(run.failure) if run.failure is not None else None,
            kept=(
                KeptReport(pid=kept.pid, url=kept.url, key_file=str(kept.key_file))
                if kept is not None
                else None
            ),
            folder=str(run.folder),
            usage=UsageReport.of(run.usage),
            levels=[LevelReport.of(each) for each in run.probe.levels] if run.probe else [],
            speculation=(
                SpeculationReport.of(run.probe.speculation)
                if run.probe is not None and run.probe.speculation is not None
                else None
            ),
            uid=run.uid,
            gpu=check.rig.smallest.gpu.slug,
            observations=[ObservationReport.of(seen) for seen in run.observations],
        )


def launches_folder() -> Path:
    """Where runs are kept, in the user's data directory; it need not be there yet."""
    from platformdirs import user_data_path

    return user_data_path("vplan", appauthor=False) / "launches"


def new_folder(model: str) -> Path:
    """A folder of its own for a run."""
    launches = launches_folder()
    launches.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", model.rstrip("/").rpartition("/")[2]).strip("-.") or "model"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for number in range(1, 1000):
        folder = launches / (f"{stamp}-{name[:60]}" + (f"-{number}" if number > 1 else ""))
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"no free name for a run in {launches}")


def write_files(run: Validation) -> None:
    """report.json and report.md beside the log; each whole or not at all."""
    report = ValidationReport.of(run)
    text = json.dumps(report.model_dump(mode="json"), indent=2) + "\n"
    write_file(run.folder / REPORT, text, force=True)
    write_file(run.folder / "report.md", markdown(run), force=True)


def markdown(run: Validation) -> str:
    """The report for people, to paste into an issue."""
    check = run.preflight.check
    lines = [
        f"# {check.card.model_id} on {check.rig.describe()}",
        "",
        f"vLLM {run.preflight.installation.release}, "
        f"{run.began.isoformat(timespec='seconds')}: **{verdict_line(run)}**",
        "",
        "```sh",
        run.preflight.shown(),
        "```",
    ]
    if run.terms:
        lines += [
            "",
            "| term | plan | band | measured | difference | inside |",
            "| --- | ---: | --- | ---: | ---: | --- |",
        ]
        lines += [f"| {' | '.join(row(term))} |" for term in run.terms]
    if run.probe is not None and run.probe.levels:
        lines += [
            "",
            "| at once | requests | tokens | tok/s | first token | per token |",
            "| ---: | ---: | --- | ---: | ---: | ---: |",
        ]
        lines += [_level_row(result) for result in run.probe.levels]
    if run.failure is not None:
        lines += ["", f"vLLM says: {run.failure.message}"]
    return "\n".join(lines) + "\n"


def _level_row(result: LevelResult) -> str:
    level = result.level
    each = f"{result.median_tpot * 1000:.1f} ms" if result.median_tpot is not None else "-"
    return (
        f"| {level.concurrency} | {result.completed} | {level.prompt_tokens} + "
        f"{level.output_tokens} | {result.output_rate:.1f} | {result.median_ttft * 1000:.0f} ms | "
        f"{each} |"
    )


def verdict_line(run: Validation) -> str:
    """The verdict in a few words."""
    from planner.launch.explain import explain

    if run.failure is not None:
        return f"the launch failed: {explain(run.failure).meaning}"
    outside = [term.name for term in run.terms if not term.inside]
    if outside:
        return f"outside the plan's band: {', '.join(outside)}"
    return f"all {len(run.terms)} terms are inside the plan's bands"


def row(term: Term) -> tuple[str, ...]:
    """A term as the cells of a table: name, plan, band, measured, difference, inside."""
    plan, unit = term.plan, term.unit
    exact = plan.low == plan.high
    low, high = _text(plan.low, unit).partition(" ")[0], _text(plan.high, unit)
    band = plan.basis.label if exact else f"{low} to {high}"
    return (
        term.name,
        _text(plan.value, unit),
        band,
        _text(term.measured, unit),
        _signed(term.difference, unit),
        "yes" if term.inside else "NO",
    )


def _text(value: float, unit: Unit) -> str:
    match unit:
        case Unit.BYTES:
            return f"{value / 2**30:.2f} GiB"
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.RATIO:
            return f"{value:.2f}"
        case Unit.SECONDS:
            return f"{value * 1000:.1f} ms"


def _signed(value: float, unit: Unit) -> str:
    text = _text(abs(value), unit)
    is_zero = not any(digit in text for digit in "123456789")
    return "0" if is_zero else f"{'-' if value < 0 else '+'}{text}"
