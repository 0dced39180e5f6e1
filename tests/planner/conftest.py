"""`vplan` in this process: quick, and what it asks of the machine can be replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Run, Vplan

from hardware_db import NoGpuDetected
from planner.cli.app import run


@pytest.fixture
def vplan_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Vplan:
    """The command line on a machine without a GPU, a network or a Hub cache."""

    def no_gpu(visible: str | None = None) -> object:
        raise NoGpuDetected("No GPU here")

    monkeypatch.setattr("hardware_db.detect.detect_rig", no_gpu)
    monkeypatch.setattr("model_cards.sources.hub.open_cached", lambda *_: None)
    monkeypatch.setattr("model_cards.sources.open.is_offline", lambda: True)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user" / name.lower()))

    def vplan(*arguments: str) -> Run:
        capsys.readouterr()
        status = run(arguments)
        printed = capsys.readouterr()
        return Run(status, printed.out, printed.err)

    return vplan
