"""The TUI's validate screen with the real vLLM: it runs, compares, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from test_validation import all_end
from textual.pilot import Pilot
from textual.widgets import RichLog, Static
from vllm_folders import make_folder

from planner import EngineConfig
from planner.launch.watchdog import descendants
from planner.settings import Settings
from planner.tui.app import VplanApp
from planner.tui.library import Library

pytestmark = pytest.mark.vllm

SECONDS = 400
Script = Callable[[VplanApp, Pilot[None]], Awaitable[None]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A plan of a tiny model, with weights of its own: a plan has no --load-format."""
    from transformers import AutoConfig, AutoModelForCausalLM

    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(tmp_path / "vllm"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }.items():
        monkeypatch.setenv(name, value)
    folder = make_folder(tmp_path, "llama")
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    model.save_pretrained(folder)
    config = EngineConfig(max_model_len=4096, enforce_eager=True, kv_cache_memory_bytes=96 * 2**20)
    return Settings("cpu", str(folder), "0.32.0", config)


def drive(settings: Settings, script: Script) -> None:
    async def run() -> None:
        app = VplanApp(settings, Library(offline=True))
        async with app.run_test(size=(120, 40)) as pilot:
            await reach(app, pilot, "starts")
            await pilot.press("x")
            await reach(app, pilot, "▸ ready")
            await pilot.press("s")
            await reach(app, pilot, "running")
            await script(app, pilot)

    asyncio.run(run())


def text(app: VplanApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).render())


def last_lines(app: VplanApp) -> list[str]:
    """What the verdict and the end of the server's log say, so that a refusal is explained."""
    lines = app.screen.query_one("#log", RichLog).lines
    return [text(app, "#verdict"), *(line.text for line in lines[-80:])]


async def reach(app: VplanApp, pilot: Pilot[None], words: str, where: str = "#verdict") -> None:
    until = time.monotonic() + SECONDS
    while words not in text(app, where):
        assert time.monotonic() < until, text(app, "#verdict")
        assert "failed" not in text(app, "#verdict"), "\n".join(last_lines(app))
        await pilot.pause(0.1)


def test_a_plan_of_the_screen_is_what_vllm_allocates(settings: Settings) -> None:
    async def script(app: VplanApp, pilot: Pilot[None]) -> None:
        await reach(app, pilot, "planned")
        assert text(app, "#verdict").startswith("✔ as planned")
        rows = {line[:15].strip(): line.split() for line in text(app, "#verified").splitlines()}
        for name in ("KV blocks", "KV tokens", "concurrency", "context length"):
            assert rows[name][-2:] == ["0", "✔"], rows[name]

    drive(settings, script)


@pytest.mark.parametrize("words", ["started", "weights loaded"])
def test_a_cancelled_launch_leaves_nothing(settings: Settings, words: str) -> None:
    everyone: list[int] = []

    async def script(app: VplanApp, pilot: Pilot[None]) -> None:
        # The verdict shows the last milestone alone: two may pass between two looks at it.
        await reach(app, pilot, f"✔ {words}", "#course")
        everyone.extend(descendants(os.getpid()))
        assert len(everyone) >= 2  # the watchdog and the server
        await pilot.press("escape")
        await reach(app, pilot, "cancelled")
        assert all_end(everyone, 10)

    drive(settings, script)
