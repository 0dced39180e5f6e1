"""What holds for all tests."""

from __future__ import annotations

import pytest

_LONG = 200  # characters


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """A long text or file is called by its beginning: each test's name goes through many hands."""
    if isinstance(val, (str, bytes)) and len(val) > _LONG:
        return f"{val[:_LONG]!a} and {len(val) - _LONG} more"
    return None
