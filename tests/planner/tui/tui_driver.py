"""Drives the TUI by its keys, and reads what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Static

from planner import EngineConfig
from planner.settings import Settings
from planner.tui.app import VplanApp
from planner.tui.screens.plan import PlanScreen

SIZES = ((80, 24), (120, 40), (200, 60))
SMALL = Settings("rtx-4090", "Qwen/Qwen3-8B", "0.33.0", EngineConfig(max_model_len=16384))
_NAMES = {"/": "slash", ".": "full_stop", "-": "minus", " ": "space", "_": "underscore"}
_PATIENCE = 60.0


class Driver:
    """One running app."""

    def __init__(self, app: VplanApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def plan(self) -> PlanScreen:
        """The plan screen, whatever lies above it."""
        return next(each for each in self.app.screen_stack if isinstance(each, PlanScreen))

    async def press(self, *keys: str) -> None:
        """Press keys; those that work are waited for."""
        await self.pilot.press(*keys)
        await self.rest()

    async def type(self, text: str) -> None:
        """Type a text."""
        await self.pilot.press(*(_NAMES.get(letter, letter) for letter in text))
        await self.rest()

    async def rest(self) -> None:
        """Wait for what was settling and for every worker, until nothing on the screen changes."""
        await self.pilot.pause(0.12)
        before = [""]
        while True:
            await self.until(lambda: all(worker.is_finished for worker in self.app.workers))
            await self.pilot.pause(0.06)
            now = _lines(self.app) if self.app.is_running else before
            if now == before:
                return
            before = now

    async def still(self) -> None:
        """Wait until nothing on the screen changes, whatever still works."""
        before: list[str] = []
        while before != (now := _lines(self.app)):
            before = now
            await self.pilot.pause(0.3)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds."""
        end = time.monotonic() + _PATIENCE
        while not holds():
            assert time.monotonic() < end, "it never came to that"
            await self.pilot.pause(0.02)

    async def focus(self, knob: str) -> None:
        """Go to a knob by the arrow keys."""
        for _ in range(20):
            focused = self.app.focused
            if focused is not None and focused.id == f"knob-{knob}":
                return
            await self.pilot.press("down" if focused is not None else "tab")
        raise AssertionError(f"no way to {knob}")

    def text(self, selector: str) -> str:
        """What a part of the screen shows."""
        return shown(self.app.screen.query_one(selector, Static))

    def value(self, knob: str) -> str:
        """What a knob shows."""
        return shown(self.plan.query_one(f"#knob-{knob} .value", Static)).strip(" ‹›")


def screen_text(app: VplanApp) -> str:
    """The screen as it is drawn."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height
    assert all(line.cell_length <= width for line in lines)
    return "\n".join(line.text for line in lines)


def _lines(app: VplanApp) -> list[str]:
    """The same, perhaps in the middle of a change of screens."""
    return [line.text for line in app.screen._compositor.render_strips()]


def shown(widget: Static) -> str:
    """The text of a widget."""
    return str(widget.render())


def drive(
    script: Callable[[Driver], Awaitable[None]],
    settings: Settings = SMALL,
    size: tuple[int, int] = (120, 40),
    path: Path | None = None,
) -> None:
    """Run a script against an app."""

    async def run() -> None:
        app = VplanApp(settings, path=path, offline=True)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.rest()
            await script(driver)

    asyncio.run(run())


@contextmanager
def copied(app: VplanApp) -> Iterator[list[str]]:
    """What is copied to the clipboard."""
    texts: list[str] = []
    app.copy_to_clipboard = texts.append  # type: ignore[method-assign]
    yield texts
