"""No test reaches the network, a token or a cache of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, away_from_the_user, connected


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """huggingface_hub as with HF_HUB_OFFLINE=1 and an HF_HOME of its own."""
    away_from_the_user(monkeypatch, tmp_path / "hf-home")


@pytest.fixture
def hub(offline: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on the loopback interface, which huggingface_hub takes for the real one."""
    with connected(monkeypatch) as server:
        yield server
