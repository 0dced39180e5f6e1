"""`vplan schema`: the JSON Schema of what `--json` prints."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.errors import PlanError


def schema(
    report: Annotated[
        str | None,
        typer.Argument(help="ranking, model-on-rig, rigs, gpus or models; all if left out."),
    ] = None,
) -> None:
    """Print the JSON Schema of the output of --json."""
    import json

    from planner.report import REPORTS

    if report is not None and report not in REPORTS:
        raise PlanError(f"Unknown report {report!r}; one of {', '.join(REPORTS)}")
    names = [report] if report is not None else list(REPORTS)
    schemas = {name: REPORTS[name].model_json_schema() for name in names}
    print(json.dumps(schemas[report] if report is not None else schemas, indent=2))
