"""How long the plan screen takes to show what a knob does, and to show itself at the start.

    python benchmarks/knob_changes.py [--changes 200] [--seed 0] [--starts 5]

At each size of the terminal, random knobs are turned by their keys, with random pauses between, so
that some changes meet what the one before left working in the background. A change takes from its
key to the last drawing that changes a cell of the screen, of all until nothing is left to draw
(Textual draws some of them twice); what a terminal is sent is made, though none is there. Comparing
the cells after each drawing is nothing that a person waits for, and left out. Wall time is what a
person waits; the processor time is that of the thread that draws, which a busy machine does not
lengthen. The start is that of a process of its own on a terminal of its own, until the
plan is drawn. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import random
import select
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

import planner.tui  # noqa: F401 - the frame rate, before Textual is imported

# isort: split
from rich.console import RenderableType
from textual._compositor import CompositorUpdate
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

from planner import EngineConfig
from planner.settings import Settings
from planner.tui.app import VplanApp
from planner.tui.knob import turn
from planner.tui.library import Library
from planner.tui.screens.plan import PlanScreen
from planner.tui.widgets.knob_row import KnobRow

SIZES: Final = ((80, 24), (120, 40), (200, 60))
BAR: Final = 0.05  # seconds within which 95 of 100 changes are to be seen
FIRST_PAINT_BAR: Final = 1.0
_BEGIN: Final = Settings("2xrtx-4090", "Qwen/Qwen3-8B", "0.33.0", EngineConfig(max_model_len=16384))
_PATIENCE: Final = 10.0
_LOOKS: Final = 0.002  # seconds between looks at whether all is drawn


class Cost(Struct, frozen=True):
    """Seconds of a change."""

    knob: str
    wall: float
    processor: float


class Watched:
    """An app, with the wall and processor time at which it last drew, and drew something new."""

    def __init__(self, app: VplanApp) -> None:
        self.app = app
        self.drawn = (0.0, 0.0)
        self.seen = (0.0, 0.0)  # without the comparisons before
        self.compared = (0.0, 0.0)  # wall and processor time that comparing took, all together
        self._cells: list[Strip] = []
        self._display = app._display
        app._display = self._drawing  # type: ignore[method-assign]

    def _drawing(self, screen: Screen[Any], update: RenderableType | None) -> None:
        self._display(screen, update)
        if isinstance(update, CompositorUpdate):
            update.render_segments(self.app.console)
        wall, processor = self.compared
        self.drawn = drawn = time.perf_counter(), time.thread_time()
        cells = [strip.simplify() for strip in screen._compositor.render_strips()]
        if cells != self._cells:
            self._cells, self.seen = cells, (drawn[0] - wall, drawn[1] - processor)
        self.compared = (
            wall + time.perf_counter() - drawn[0],
            processor + time.thread_time() - drawn[1],
        )

    @property
    def plan(self) -> PlanScreen:
        """The plan screen."""
        return next(each for each in self.app.screen_stack if isinstance(each, PlanScreen))

    def is_opening(self) -> bool:
        """Whether a checkpoint is still being opened, which is then planned."""
        return any(each.group == "open" and not each.is_finished for each in self.app.workers)

    def is_drawn(self, since: float) -> bool:
        """Whether it was drawn since then, with nothing left to be drawn nor a message about it."""
        screen = self.plan
        waits = screen._layout_required or screen._scroll_required or screen._dirty_widgets
        if self.drawn[0] < since or waits:
            return False
        return not any(
            each._repaint_required or each._layout_required or not each._message_queue.empty()
            for each in screen.walk_children(with_self=True)
        )


async def change(watched: Watched, row: KnobRow, by: int) -> Cost:
    """Turn a knob by its key, until that is drawn."""
    before, (watching, comparing) = watched.plan.settings, watched.compared
    wall, processor = time.perf_counter(), time.thread_time()
    watched.app.simulate_key("right" if by > 0 else "left")
    while watched.plan.settings is before or watched.is_opening() or not watched.is_drawn(wall):
        await asyncio.sleep(_LOOKS)
        assert time.perf_counter() - wall < _PATIENCE, f"{row.knob.key}: nothing happened"
    seen_wall, seen_processor = watched.seen
    took = seen_wall - (wall - watching), seen_processor - (processor - comparing)
    assert took[0] > 0, f"{row.knob.key}: nothing looks otherwise"
    return Cost(row.knob.key, *took)


async def changes(
    app: VplanApp, pilot: Pilot[None], count: int, seed: int, longest_pause: float
) -> list[Cost]:
    """So many random changes that can be made."""
    dice, costs = random.Random(seed), list[Cost]()
    watched = Watched(app)
    rows = list(watched.plan.query(KnobRow))
    while len(costs) < count:
        row, by = dice.choice(rows), dice.choice((-1, 1))
        if turn(row.knob, watched.plan.settings, watched.plan.outcome, by) is None:
            continue  # at its end
        row.focus()
        await pilot.pause(dice.uniform(0, longest_pause))
        costs.append(await change(watched, row, by))
    return costs


def at_size(size: tuple[int, int], count: int, seed: int, longest_pause: float = 0.3) -> list[Cost]:
    """The costs of changes on a terminal of this size."""

    async def run() -> list[Cost]:
        app = VplanApp(_BEGIN, Library(offline=True), alone=True)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.5)
            costs = await changes(app, pilot, count, seed, longest_pause)
            app.workers.cancel_all()
            return costs

    return asyncio.run(run())


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[max(0, round(share * len(values)) - 1)]


def first_paint(width: int, height: int) -> tuple[float, float]:
    """Wall and processor seconds from the start of a process to its plan on the terminal."""
    run = ["-c", "from planner.cli import main; main()", "tui", "--fresh", "--offline"]
    began = time.perf_counter()
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm-256color", LINES=str(height), COLUMNS=str(width))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[1:])
        os.execv(sys.executable, [sys.executable, *run])
    shown = b""
    while b"starts" not in shown:
        assert select.select([terminal], [], [], _PATIENCE)[0], shown[-500:]
        shown += os.read(terminal, 65536)
    wall = time.perf_counter() - began
    os.kill(process, 9)  # what it would do further is no part of it
    spent = os.wait4(process, 0)[2]
    os.close(terminal)
    return wall, spent.ru_utime + spent.ru_stime


def _line(name: str, seconds: list[float], bar: float) -> str:
    figures = " ".join(f"{1000 * percentile(seconds, share):7.1f}" for share in (0.5, 0.95, 1))
    return f"{name:<22}{figures}  {'holds' if percentile(seconds, 0.95) <= bar else 'MISSED'}"


def _slowest(costs: list[Cost]) -> Iterator[str]:
    for cost in sorted(costs, key=lambda each: each.wall)[-5:]:
        yield f"{cost.knob} {1000 * cost.wall:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    missed = 0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'ms':<22}{'p50':>7} {'p95':>7} {'max':>7}")
    for size in SIZES:
        costs = at_size(size, options.changes, options.seed)
        name = "x".join(map(str, size))
        for kind in ("wall", "processor"):
            seconds = [getattr(cost, kind) for cost in costs]
            missed += percentile(seconds, 0.95) > BAR
            print(_line(f"{name} {kind}", seconds, BAR))
        print(f"{'':<22}slowest: {', '.join(_slowest(costs))}")
    starts = [first_paint(80, 24) for _ in range(options.starts)]
    for index, kind in enumerate(("wall", "processor")):
        seconds = [start[index] for start in starts]
        missed += percentile(seconds, 0.95) > FIRST_PAINT_BAR
        print(_line(f"first paint {kind}", seconds, FIRST_PAINT_BAR))
    return 1 if missed else 0


if __name__ == "__main__":
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()  # no session of a person's is touched
    sys.exit(main())
