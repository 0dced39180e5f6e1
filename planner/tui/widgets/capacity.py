"""Context against requests at once, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Final

from textual.content import Content

from planner.memory.verdict import Answer
from planner.tui.capacity import Room
from planner.tui.outcome import Outcome
from planner.tui.show import ANSWERS, DIM, plain
from planner.tui.widgets.panel import Panel

_WORDS: Final = {Answer.YES: "starts", Answer.RISKY: "may not", Answer.NO: "does not"}
_BESIDE: Final = 36  # columns that are not bar


class CapacityPanel(Panel):
    """A bar for each context; each doubling of requests is one step wide."""

    BORDER_TITLE = "Capacity"

    _rooms: Sequence[Room] = ()
    _why_none: str = ""

    def show_rooms(self, rooms: Sequence[Room], why_none: str = "") -> None:
        """Show what a sweep found, or why there is none."""
        self._rooms, self._why_none = rooms, why_none
        self.redraw()

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show the last sweep, until there is another."""
        if not self._rooms:
            self.update(Content.assemble((plain(self._why_none), DIM)))
            return
        width = max(8, width - _BESIDE)
        now = None if outcome.memory is None else outcome.memory.config.max_model_len
        wanted = outcome.settings.concurrency
        held = [room.requests for room in self._rooms if room.answer is not Answer.NO]
        scale = width / max(1.0, log2(1 + max([wanted, *held])))
        mark = round(scale * log2(1 + wanted)) if held else 0
        heading = f"{'context':>11}   {'requests at once':<{width}}"
        lines = [Content.assemble((heading, DIM))]
        lines += [_line(room, room.context == now, scale, width, mark) for room in self._rooms]
        note = f"│ {wanted:,} wanted; each doubling of requests is equally wide"
        if not held:
            note = "it starts with none of these contexts"
        lines.append(Content.assemble((f"{'':>14}{note}", DIM)))
        self.update(Content("\n").join(lines))


def _line(room: Room, here: bool, scale: float, width: int, mark: int) -> Content:
    sign, _, style = ANSWERS[room.answer]
    full = 0 if room.answer is Answer.NO else max(1, round(scale * log2(1 + room.requests)))
    cells = ["━" if column < full else " " for column in range(width)]
    if 0 < mark <= width:
        cells[mark - 1] = "┿" if mark <= full else "│"
    amount = "" if room.answer is Answer.NO else f"{room.requests:,.1f}"
    answer = f"{sign} {_WORDS[room.answer]}"
    return Content.assemble(
        (f"{'▸' if here else ' '} {room.context:>9,}   ", "bold" if here else ""),
        ("".join(cells), style),
        (f" {amount:>8} ", "bold"),
        (answer, style),
    )
