"""`vplan schema`: the JSON Schema of what `--json` prints."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.errors import PlanError


def schema(
    report: Annotated[
        str | None,
        typer.Argument(
            help="ranking, model-on-rig, placing, rigs, comparison, check, diagnosis, validation, "
            "calibration, gpus, models, search or speculation; else all."
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of the output of --json."""
    import json

    from pydantic import BaseModel

    from planner.comparison_report import ComparisonReport
    from planner.diagnosis.report import CheckReport
    from planner.launch.calibration_report import CalibrationReport
    from planner.launch.log_report import DiagnosisReport
    from planner.launch.report import ValidationReport
    from planner.recommendation.report import ModelSearchReport, PlacingReport
    from planner.report import REPORTS
    from planner.speculation_report import SpeculationReport

    reports: dict[str, type[BaseModel]] = {
        **REPORTS,
        "model-on-rig": ModelSearchReport,
        "placing": PlacingReport,
        "comparison": ComparisonReport,
        "check": CheckReport,
        "diagnosis": DiagnosisReport,
        "validation": ValidationReport,
        "calibration": CalibrationReport,
        "speculation": SpeculationReport,
    }
    if report is not None and report not in reports:
        raise PlanError(f"Unknown report {report!r}; one of {', '.join(reports)}")
    names = [report] if report is not None else list(reports)
    schemas = {name: reports[name].model_json_schema() for name in names}
    print(json.dumps(schemas[report] if report is not None else schemas, indent=2))
