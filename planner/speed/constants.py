"""Constants of the step-time model with their source: data/constants.json.

tools/fit_speed.py writes them from published measurements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

Constants = Mapping[str, Any]  # numbers by name; tables of them where they go by a kind


@cache
def speed_data() -> dict[str, Any]:
    """The file: constants with start, band, rows and source; bands of predictions."""
    path = Path(__file__).parent / "data" / "constants.json"
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


@cache
def speed_constants() -> Constants:
    """The constants as fitted."""
    return nested({name: entry["value"] for name, entry in speed_data()["constants"].items()})


def nested(values: Mapping[str, float]) -> Constants:
    """Constants by dotted names (`weight_efficiency.fp8`) as tables by kind."""
    tables: dict[str, Any] = {}
    for name, value in values.items():
        table, _, kind = name.partition(".")
        if kind:
            tables.setdefault(table, {})[kind] = value
        else:
            tables[table] = value
    return tables
