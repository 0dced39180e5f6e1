"""The TUI on a machine without a GPU, a network, a Hub cache or a session before."""

from __future__ import annotations

import pytest

from hardware_db import NoGpuDetected


@pytest.fixture(autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))

    def no_gpu(visible: str | None = None) -> object:
        raise NoGpuDetected("No GPU here")

    monkeypatch.setattr("hardware_db.detect.detect_rig", no_gpu)
    monkeypatch.setattr("model_cards.sources.hub.open_cached", lambda *_: None)
    monkeypatch.setattr("model_cards.sources.open.is_offline", lambda: True)
