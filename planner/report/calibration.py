"""What `vplan calibration list --json` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from planner.calibration_store import Run
from planner.report.base import StrictModel
from planner.report.validation import ObservationReport


class RunReport(StrictModel):
    """A validation that taught something."""

    number: int
    began: str
    gpu: str
    vllm: str
    model: str
    verdict: str
    command: str
    source: str
    observations: list[ObservationReport]


class CalibrationReport(StrictModel):
    """All of them, oldest first."""

    schema_version: Literal[1] = 1
    kind: Literal["calibration_runs"] = "calibration_runs"
    runs: list[RunReport]

    @classmethod
    def of(cls, runs: Iterable[Run]) -> CalibrationReport:
        """From the store's."""
        return cls(
            runs=[
                RunReport(
                    number=run.number,
                    began=run.began,
                    gpu=run.gpu,
                    vllm=run.release,
                    model=run.model,
                    verdict=run.verdict,
                    command=run.command,
                    source=run.source,
                    observations=[ObservationReport.of(seen) for seen in run.observations],
                )
                for run in runs
            ]
        )
