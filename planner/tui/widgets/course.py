"""How far a launch has got, and the memory that it has in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from textual.content import Content
from textual.widgets import Static

from planner.cli.format import gib
from planner.engine.device import Platform
from planner.launch.facts import Milestone
from planner.launch.progress import Asking, Event, InUse, Reached
from planner.memory.plan import MemoryPlan
from planner.tui.show import DIM, plain

_NARROWEST: Final = 8  # columns of a bar
_SHOWN: Final = tuple(each for each in Milestone if each is not Milestone.STOPPED)


class CourseCard(Static):
    """Milestones as they are passed, what is asked of the server, and a gauge."""

    BORDER_TITLE = "Course"

    _memory: MemoryPlan | None = None
    _ranks = 1
    _total: float = 0.0  # of a GPU
    _asked: float = 0.0
    _in_use: InUse | None = None
    _peak: int = 0

    def begin(self, memory: MemoryPlan) -> None:
        """A launch of this plan begins."""
        self._memory = memory
        self._ranks = memory.config.given.world_size
        if memory.device.platform is Platform.CPU:
            self._ranks = 1
        self._total, self._asked = memory.device_total.value, memory.requested.value
        self._passed: dict[Milestone, float] = {}
        self._asking = ""
        self._in_use, self._peak = None, 0
        self.redraw()

    def tell(self, event: Event) -> None:
        """Something happened."""
        match event:
            case Reached():
                self._passed.setdefault(event.milestone, event.seconds)
            case Asking():
                self._asking = event.text
            case InUse():
                self._in_use, self._peak = event, max(self._peak, event.memory)
            case _:
                return
        self.redraw()

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Draw what is known."""
        width = self.content_size.width
        if self._memory is None or width <= 0:
            return
        lines = [self._milestones(width)]
        if self._asking:
            lines.append(Content.assemble((plain(self._asking), DIM)))
        if self._in_use is not None:
            lines += self._gauges(self._in_use, width)
        self.update(Content("\n").join(lines))

    def _milestones(self, width: int) -> Content:
        """Those passed, with their times, and the next, in as many lines as they take."""
        last = max(self._passed, default=None)
        lines: list[Content] = []
        line, used = Content(""), 0
        for each in _SHOWN:
            if each in self._passed:
                text, style = f"✔ {each.label} {self._passed[each]:.0f} s", "$text-success"
            elif last is None or each > last:
                text, style = f"· {each.label}", DIM
            else:
                continue  # this release or device does without
            if used and used + len(text) + 2 > width:
                lines.append(line)
                line, used = Content(""), 0
            line += Content.assemble("  " if used else "", (text, style))
            used += len(text) + (2 if used else 0)
        return Content("\n").join([*lines, line])

    def _gauges(self, now: InUse, width: int) -> Iterator[Content]:
        """What is in use, and a bar for each GPU with the plan's share marked."""
        watts = "" if now.watts is None else f", {now.watts:.0f} W"
        each = " of each" if self._ranks > 1 else ""
        yield Content.assemble(
            (f"{gib(now.memory)} GiB in use", "bold"),
            f", {gib(self._peak)} at most{watts}; ",
            ("┃", "bold"),
            f" asked for: {gib(self._asked)}{each}",
        )
        for gpu in now.gpus:
            yield self._gauge(f"GPU {gpu.index} ", gpu.used, gpu.total, self._asked, width)
        if not now.gpus:
            total, asked = self._total * self._ranks, self._asked * self._ranks
            yield self._gauge("", now.memory, total, asked, width)

    def _gauge(self, name: str, used: int, total: float, asked: float, width: int) -> Content:
        text = f" {gib(used):>6} of {gib(total)} GiB"
        room = max(_NARROWEST, width - len(name) - len(text))
        scale = room / max(total, used, 1.0)
        full = min(room, max(1, round(used * scale)))
        mark = min(room, max(1, round(asked * scale)))
        cells = ["█" if column < full else "·" for column in range(room)]
        cells[mark - 1] = "┃"
        return Content.assemble(name, ("".join(cells), "$primary"), text)
