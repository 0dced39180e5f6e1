"""Drives the TUI by its keys, and reads what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from textual.events import Key
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.timer import Timer
from textual.widgets import DataTable, Static

from planner import EngineConfig
from planner.settings import Settings
from planner.tui.app import VplanApp
from planner.tui.library import Library
from planner.tui.screens.plan import PlanScreen
from planner.tui.widgets.knob_row import LABEL, KnobRow

SIZES = ((80, 24), (120, 40), (200, 60))
SMALL = Settings("rtx-4090", "Qwen/Qwen3-8B", "0.33.0", EngineConfig(max_model_len=16384))
_NAMES = {"/": "slash", ".": "full_stop", "-": "minus", " ": "space", "_": "underscore"}
_CHARACTERS = {name: character for character, name in {**_NAMES, "?": "question_mark"}.items()}
_PATIENCE = 60.0
_LOOKS = 0.01  # seconds between looks at what is under way
_SHORT = 0.3  # what is shown for seconds is not waited for
_STILL = 0.1


class Driver:
    """One running app."""

    def __init__(self, app: VplanApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def plan(self) -> PlanScreen:
        """The plan screen, whatever lies above it."""
        return next(each for each in self.app.screen_stack if isinstance(each, PlanScreen))

    async def press(self, *keys: str) -> None:
        """Press keys, and wait for what each begins."""
        for key in keys:
            await self.send(key)
            await self.rest()

    async def send(self, *keys: str) -> None:
        """Press keys, and do not wait for what they begin."""
        for key in keys:
            name = _NAMES.get(key, key)
            self.app.post_message(Key(name, key if len(key) == 1 else _CHARACTERS.get(name)))
            await self._until_calm(self._has_messages)

    async def type(self, text: str) -> None:
        """Type a text."""
        await self.send(*text)
        await self.rest()

    async def rest(self) -> None:
        """Wait for every worker and for what was settling, until all of it is drawn."""
        await self._until_calm(self._works)

    async def _until_calm(self, is_busy: Callable[[], bool]) -> None:
        """Twice in a row: dealing with the last message may have led to others."""
        end, calm = time.monotonic() + _PATIENCE, 0
        while calm < 2 and self.app.is_running:
            if is_busy():
                calm = 0
                await asyncio.sleep(_LOOKS)
            else:
                calm += 1
                await self.pilot.pause(0)
            assert time.monotonic() < end, "it never came to rest"

    def _pumps(self) -> list[MessagePump]:
        nodes = [node for screen in self.app.screen_stack for node in screen.walk_children()]
        return [self.app, *self.app.screen_stack, *nodes]

    def _has_messages(self) -> bool:
        return any(pump.message_queue_size for pump in self._pumps())

    def _works(self) -> bool:
        """Whether a worker, a short timer or an animation is under way, or something undrawn."""
        screen = self.app.screen
        return (
            not all(worker.is_finished for worker in self.app.workers)
            or self._has_messages()
            or any(pump._next_callbacks for pump in self._pumps())
            or bool(screen._callbacks)
            or any(table._require_update_dimensions for table in screen.query(DataTable))
            or any(map(_is_short, (timer for pump in self._pumps() for timer in pump._timers)))
            or bool(self.app.animator._animations or self.app.animator._scheduled)
            or bool(screen._dirty_widgets or screen._layout_required or screen._scroll_required)
        )

    async def still(self) -> None:
        """Wait until nothing on the screen changes, whatever still works."""
        before: list[str] = []
        while before != (now := _lines(self.app)):
            before = now
            await self.pilot.pause(_STILL)

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
        return shown(self.plan.query_one(f"#knob-{knob}", KnobRow))[LABEL:].strip(" ‹›")


def screen_text(app: VplanApp) -> str:
    """The screen as it is drawn."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height
    assert all(line.cell_length <= width for line in lines)
    return "\n".join(line.text for line in lines)


def _is_short(timer: Timer) -> bool:
    """Whether it is about to go off, once."""
    waits = timer._task is not None and not timer._task.done() and timer._active.is_set()
    return waits and timer._repeat == 0 and timer._interval <= _SHORT


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
        app = VplanApp(settings, Library(offline=True), path=path)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.rest()
            await script(driver)
            app.workers.cancel_all()  # an answer would meet widgets that are gone

    asyncio.run(run())


@contextmanager
def copied(app: VplanApp) -> Iterator[list[str]]:
    """What is copied to the clipboard."""
    texts: list[str] = []
    app.copy_to_clipboard = texts.append  # type: ignore[method-assign]
    yield texts
