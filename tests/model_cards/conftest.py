"""No test reaches the network, a token or a cache of the user's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, serving
from huggingface_hub import constants
from huggingface_hub.utils import _http


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """huggingface_hub as with HF_HUB_OFFLINE=1 and an HF_HOME of its own.

    It reads its environment when it is imported, so what it read is replaced.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "hf-home"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr("model_cards.sources.hub_client._silence", None)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture
def hub(offline: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on the loopback interface, which huggingface_hub takes for the real one."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        _keep_session_from(set(threading.enumerate()), monkeypatch)
        yield server


def _keep_session_from(others: set[threading.Thread], monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that a test before left retrying would close the session that all share."""
    close = _http.close_session

    def close_own() -> None:
        if threading.current_thread() not in others:
            close()

    monkeypatch.setattr(_http, "close_session", close_own)
