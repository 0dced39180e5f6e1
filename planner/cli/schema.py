"""`vplan schema`: the JSON Schema of what `--json` prints."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from planner.errors import PlanError

# Of each: its module in planner.report, and the class there.
_REPORTS: Final = {
    "ranking": ("ranking", "RankingReport"),
    "model-on-rig": ("model_on_rig", "ModelOnRigReport"),
    "rigs": ("rigs", "RigsReport"),
    "gpus": ("hardware", "GpusReport"),
    "models": ("models", "ModelsReport"),
    "search": ("models", "SearchReport"),
    "placing": ("placing", "PlacingReport"),
    "comparison": ("comparison", "ComparisonReport"),
    "check": ("check", "CheckReport"),
    "diagnosis": ("launch_log", "DiagnosisReport"),
    "validation": ("validation", "ValidationReport"),
    "calibration": ("calibration", "CalibrationReport"),
    "speculation": ("speculation", "SpeculationReport"),
}


def schema(
    report: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(_REPORTS)}; else all."),
    ] = None,
) -> None:
    """Print the JSON Schema of the output of --json."""
    import json
    from importlib import import_module

    from pydantic import BaseModel

    if report is not None and report not in _REPORTS:
        raise PlanError(f"Unknown report {report!r}; one of {', '.join(_REPORTS)}")
    schemas = {}
    for name in [report] if report is not None else _REPORTS:
        module, printed = _REPORTS[name]
        model: type[BaseModel] = getattr(import_module(f"planner.report.{module}"), printed)
        schemas[name] = model.model_json_schema()
    print(json.dumps(schemas[report] if report is not None else schemas, indent=2))
