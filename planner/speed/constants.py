"""Constants of the step-time model, with their source: data/constants.json."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def speed_constants() -> dict[str, Any]:
    """The constants as fitted."""
    path = Path(__file__).parent / "data" / "constants.json"
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table
