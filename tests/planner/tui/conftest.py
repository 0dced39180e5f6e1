"""The TUI on a machine without a GPU, a network or a Hub cache."""

from __future__ import annotations

import pytest

from hardware_db import NoGpuDetected


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gpu() -> object:
        raise NoGpuDetected("No GPU here")

    monkeypatch.setattr("hardware_db.detect.detect_rig", no_gpu)
    monkeypatch.setattr("model_cards.sources.hub.open_cached", lambda *_: None)
    monkeypatch.setattr("model_cards.sources.open.is_offline", lambda: True)
