"""Context against requests at once, as bars."""

from __future__ import annotations

from math import log2
from typing import Final

from textual.content import Content

from planner.memory.verdict import Answer
from planner.tui.capacity import Room, capacity
from planner.tui.outcome import Outcome
from planner.tui.show import ANSWERS, DIM
from planner.tui.widgets.study import Study

_WORDS: Final = {Answer.YES: "starts", Answer.RISKY: "may not", Answer.NO: "does not"}
_BESIDE: Final = 36  # columns that are not bar

Rooms = tuple[Room, ...]


class CapacityPanel(Study[Rooms]):
    """A bar for each context; each doubling of requests is one step wide."""

    BORDER_TITLE = "Capacity"

    def ask(self, outcome: Outcome) -> Rooms:
        """Sweep over contexts."""
        return capacity(outcome)

    def draw_answer(self, answer: Rooms, outcome: Outcome, width: int) -> Content:
        """A line for each context."""
        width = max(8, width - _BESIDE)
        now = None if outcome.memory is None else outcome.memory.config.max_model_len
        wanted = outcome.settings.concurrency
        held = [room.requests for room in answer if room.answer is not Answer.NO]
        scale = width / max(1.0, log2(1 + max([wanted, *held])))
        mark = round(scale * log2(1 + wanted)) if held else 0
        heading = f"{'context':>11}   {'requests at once':<{width}}"
        lines = [Content.assemble((heading, DIM))]
        lines += [_line(room, room.context == now, scale, width, mark) for room in answer]
        note = f"│ {wanted:,} wanted; each doubling is equally wide"
        if not held:
            note = "it starts with none of these contexts"
        lines.append(Content.assemble((f"{'':>14}{note}", DIM)))
        return Content("\n").join(lines)


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
