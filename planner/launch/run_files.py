"""Where the files of validated launches are kept."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from planner.command.secrets import redacted
from planner.files import write_file
from planner.launch.markdown import markdown
from planner.launch.validation import Validation
from planner.report.validation import ValidationReport

REPORT: Final = "report.json"


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
    """report.json and report.md beside the log, without secrets; each whole or not at all."""
    report = ValidationReport.of(run)
    text = json.dumps(report.model_dump(mode="json"), indent=2) + "\n"
    write_file(run.folder / REPORT, redacted(text), force=True)
    write_file(run.folder / "report.md", redacted(markdown(run)), force=True)
