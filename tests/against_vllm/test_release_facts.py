"""The installed vLLM's own parser, and what planner/engine/data says of that release."""

from __future__ import annotations

import sys

import pytest
from add_release import installed
from conftest import RELEASE
from release_tables import expand, read

from planner.engine.releases import find_release
from planner.engine.variables import is_typed_variable, unreadable

pytestmark = pytest.mark.vllm


def test_the_table_of_the_installed_release() -> None:
    """Names, types, defaults, choices, keys and variables: add_release.py would change nothing."""
    stored = next(table for table in expand(*read()) if table["release"] == RELEASE)
    assert installed(sys.executable) == stored


def test_what_it_reads_of_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value that the table refuses is one that vLLM's own reader refuses, and no other."""
    import vllm.envs as envs

    release = find_release(RELEASE)
    judged = [name for name in envs.environment_variables if is_typed_variable(name)]
    assert len(judged) > 150
    for name in judged:
        for value in ("1", "0.5", "yes", "", "auto", "fp8", "NHD"):
            monkeypatch.setenv(name, value)
            try:
                envs.environment_variables[name]()
            except (ValueError, OSError):
                readable = False
            else:
                readable = True
            monkeypatch.delenv(name)
            assert (unreadable(name, value, release) is None) is readable, (name, value)
