"""Fitted constants of what vLLM measures at start-up, keyed by release (data/constants.json).

tools/fit_constants.py writes them from published launches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Final

from planner.engine.releases import Release
from planner.quantity import Basis, Quantity

GIB: Final = 2**30
_ON_OTHER_GPUS: Final = 0.8  # the band's share where a constant was fitted on other GPUs

Table = Mapping[str, Sequence[Mapping[str, Any]]]

_OTHER: ContextVar[Table | None] = ContextVar("constants", default=None)


@cache
def shipped_constants() -> Table:
    """The table of this version."""
    path = Path(__file__).parent / "data" / "constants.json"
    table: Table = json.loads(path.read_text("utf-8"))["constants"]
    return table


@contextmanager
def with_constants(table: Table | None) -> Iterator[None]:
    """Plan with another table: constants fitted to fewer launches, or to one's own. None: as is."""
    token = _OTHER.set(table if table is not None else _OTHER.get())
    try:
        yield
    finally:
        _OTHER.reset(token)


def constant(name: str, release: Release, gpu: str | None = None) -> Quantity:
    """The constant's value for a release, with band, basis and source.

    `gpu` is the GPU's slug where the constant depends on it: on one that no launch behind the
    value ran on, the value is an estimate.
    """
    table = _OTHER.get() or shipped_constants()
    taken = None
    for row in table[name]:
        if release.at_least(row["since"]):
            taken = row
    assert taken is not None, f"{name} has no value for {release.name}"
    basis, band = Basis[taken["basis"].upper()], taken["band"]
    if gpu is not None and gpu not in taken["gpus"]:
        basis, band = Basis.ESTIMATED, max(band, _ON_OTHER_GPUS)
    return Quantity.within(taken["value"], band, basis, taken["source"])
