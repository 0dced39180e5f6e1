"""The validations of this user so far: the reports that they left, and what they taught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from planner import calibration
from planner.calibration import Observation, Term
from planner.calibration_store import CalibrationStore, Run
from planner.launch.run_files import REPORT, launches_folder
from planner.launch.validation import Validation
from planner.report.validation import ObservationReport, ValidationReport


class PastRun(Struct, frozen=True):
    """A validation and the folder of its files: server.log, report.json, report.md."""

    folder: Path
    report: ValidationReport


def past_runs() -> Iterator[PastRun]:
    """Newest first. What cannot be read, or was written by a newer vplan, is passed over."""
    try:
        folders = sorted(launches_folder().iterdir(), reverse=True)
    except OSError:
        return
    for folder in folders:
        try:
            text = (folder / REPORT).read_text("utf-8")
            yield PastRun(folder, ValidationReport.model_validate_json(text))
        except (OSError, ValueError):  # of pydantic and of UTF-8, too
            continue


def open_store(warn: Callable[[str], None] = lambda text: None) -> CalibrationStore:
    """The user's store; should it be damaged, a new one is filled from the reports."""
    return CalibrationStore(refill=_taught, warn=warn)


def remember(run: Validation, warn: Callable[[str], None] = lambda text: None) -> None:
    """Keep what a validation taught; the next plan of this process knows it.

    Raises `StoreError` where the store cannot be used.
    """
    if run.observations:
        open_store(warn).add([_run(ValidationReport.of(run))])
        calibration.reload()


def _taught() -> Iterator[Run]:
    for past in reversed(list(past_runs())):
        if past.report.observations:
            yield _run(past.report)


def _run(report: ValidationReport) -> Run:
    return Run(
        report.began,
        report.gpu,
        report.vllm,
        report.model.id,
        report.verdict,
        report.command,
        tuple(_observation(seen) for seen in report.observations),
        report.uid,
    )


def _observation(seen: ObservationReport) -> Observation:
    return Observation(Term(seen.term), seen.subject, seen.measured, seen.fitted, seen.formula)
