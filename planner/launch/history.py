"""The validations of this user so far, from the reports that they left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.launch.report import REPORT, ValidationReport, launches_folder


@dataclass(frozen=True, slots=True)
class PastRun:
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
