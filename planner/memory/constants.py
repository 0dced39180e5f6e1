"""Fitted constants of what vLLM measures at start-up, keyed by release (data/constants.json)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from planner.engine.releases import Release
from planner.quantity import Basis, Quantity

GIB: Final = 2**30


@cache
def _table() -> dict[str, Any]:
    path = Path(__file__).parent / "data" / "constants.json"
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


def constant(name: str, release: Release) -> Quantity:
    """The constant's value for a release, with band, basis and source."""
    taken = None
    for row in _table()[name]:
        if release.at_least(row["since"]):
            taken = row
    assert taken is not None, f"{name} has no value for {release.name}"
    basis = Basis[taken["basis"].upper()]
    return Quantity.within(taken["value"], taken["band"], basis, taken["source"])
