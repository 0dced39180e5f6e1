"""Fitted constants as they were one day, so that fitting them anew changes no picture.

`PYTHONPATH=. python tests/planner/tui/steady_constants.py` writes today's to steady_constants.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.memory.constants import shipped_constants
from planner.speed.acceptance import acceptance_data
from planner.speed.constants import nested, speed_constants, speed_data
from planner.speed.drafting import drafting_costs

_FILE = Path(__file__).with_suffix(".json")


def _shipped() -> dict[str, dict[str, Any]]:
    """The tables that the planner reads, by name; each is read from its file once."""
    return {
        "memory": dict(shipped_constants()),
        "speed": speed_data(),
        "acceptance": acceptance_data(),
        "drafting": drafting_costs(),
    }


@pytest.fixture
def steady_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the file; a constant that came later keeps its value."""
    kept = json.loads(_FILE.read_text("utf-8"))
    held = {**_shipped(), "memory": shipped_constants(), "derived": speed_constants()}
    values = {name: entry["value"] for name, entry in kept["speed"]["constants"].items()}
    for name, table in {**kept, "derived": nested(values)}.items():
        for key, value in table.items():
            monkeypatch.setitem(held[name], key, value)  # type: ignore[arg-type]


if __name__ == "__main__":
    _FILE.write_text(json.dumps(_shipped(), indent=1) + "\n", "utf-8")
