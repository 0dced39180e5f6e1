"""The report of a validated launch, and where it is kept."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from planner.files import write_file
from planner.launch.log_report import FailureReport, LaunchFactsReport
from planner.launch.markdown import markdown
from planner.launch.report_parts import (
    CompletionReport,
    KeptReport,
    LevelReport,
    ObservationReport,
    SpeculationReport,
    TermReport,
    TryReport,
    UsageReport,
)
from planner.launch.validation import Validation
from planner.report import ModelReport, RigReport, StrictModel

REPORT: Final = "report.json"


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
