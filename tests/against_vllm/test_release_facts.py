"""The installed vLLM's own parser, and what planner/engine/data says of that release."""

from __future__ import annotations

import sys

import pytest
from add_release import installed
from conftest import RELEASE
from release_tables import expand, read

pytestmark = pytest.mark.vllm


def test_the_table_of_the_installed_release() -> None:
    """Names, types, defaults, choices, keys and variables: add_release.py would change nothing."""
    stored = next(table for table in expand(*read()) if table["release"] == RELEASE)
    assert installed(sys.executable) == stored
