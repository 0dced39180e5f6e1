"""Draw the README's pictures of the TUI into docs/: the app itself, with keys pressed.

    python tools/build_pictures.py

Offline, and without anything that this machine remembers: neither its session nor its calibration.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from textual.pilot import Pilot

from planner.engine_config import EngineConfig
from planner.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"
SIZE = (120, 40)
PLAN = Settings(
    "2xrtx-3090",
    "Qwen/Qwen3-32B-AWQ",
    "0.33.0",
    EngineConfig(tensor_parallel_size=2, max_model_len=16384),
    concurrency=4,
)
PICTURES = {"tui": ("v",), "tui-recommend": ("r",)}  # file: the keys that lead there


async def draw(keys: tuple[str, ...]) -> str:
    """The screen after some keys, as SVG."""
    from planner.tui.app import VplanApp  # once the environment is set
    from planner.tui.library import Library

    app = VplanApp(PLAN, Library(offline=True))
    async with app.run_test(size=SIZE) as pilot:
        drawn = await settled(pilot)
        for key in keys:
            await pilot.press(key)
            drawn = await settled(pilot)
        return drawn


async def settled(pilot: Pilot[None]) -> str:
    """The screen once nothing is worked on and nothing changes."""
    before = ""
    while True:
        await pilot.pause(0.5)
        now = pilot.app.export_screenshot()
        if now == before and all(worker.is_finished for worker in pilot.app.workers):
            return now
        before = now


def main() -> None:
    with tempfile.TemporaryDirectory() as nowhere:
        for name in ("STATE", "DATA", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = nowhere
        os.environ["HF_HOME"] = nowhere
        for name, keys in PICTURES.items():
            (DOCS / f"{name}.svg").write_text(asyncio.run(draw(keys)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
