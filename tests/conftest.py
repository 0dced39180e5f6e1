"""What holds for all tests."""

from __future__ import annotations

import compileall
from pathlib import Path

import pytest

_LONG = 200  # characters
_PACKAGES = ("hardware_db", "model_cards", "planner")


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start find vplan compiled, as an installation leaves it."""
    if not hasattr(config, "workerinput"):  # once, whatever it is run by
        for package in _PACKAGES:
            compileall.compile_dir(Path(__file__).parent.parent / package, quiet=2)


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """A long text or file is called by its beginning: each test's name goes through many hands."""
    if isinstance(val, (str, bytes)) and len(val) > _LONG:
        return f"{val[:_LONG]!a} and {len(val) - _LONG} more"
    return None
