"""Context against requests at once, as bars."""

from __future__ import annotations

from math import log2
from typing import Final

from textual.content import Content

from planner.cli.format import times_band
from planner.memory.verdict import Answer
from planner.tui.capacity import Room, capacity
from planner.tui.outcome import Outcome
from planner.tui.show import ANSWERS, DIM
from planner.tui.widgets.study import Study

_WORDS: Final = {Answer.YES: "starts", Answer.RISKY: "may not", Answer.NO: "does not"}
_BESIDE: Final = 28  # columns that are neither bar nor numbers, one left free

Rooms = tuple[Room, ...]


class CapacityPanel(Study[Rooms]):
    """A bar for each context; each doubling of requests is one step wide."""

    BORDER_TITLE = "Capacity"

    def ask(self, outcome: Outcome) -> Rooms:
        """Sweep over contexts."""
        return capacity(outcome)

    def draw_answer(self, answer: Rooms, outcome: Outcome, width: int) -> Content:
        """A line for each context."""
        bands = [_amount(room) for room in answer]
        numbers = max(len(number) for number, _ in bands), max(len(band) for _, band in bands)
        width = max(8, width - _BESIDE - sum(numbers))
        now = None if outcome.memory is None else outcome.memory.config.max_model_len
        wanted = outcome.settings.concurrency
        held = [room.requests.value for room in answer if room.answer is not Answer.NO]
        scale = width / max(1.0, log2(1 + max([wanted, *held])))
        mark = round(scale * log2(1 + wanted)) if held else 0
        heading = f"{'context':>11}   {'requests at once':<{width}}"
        lines = [Content.assemble((heading, DIM))]
        lines += [_line(room, room.context == now, scale, width, mark, numbers) for room in answer]
        note = f"│ {wanted:,} wanted; each doubling is equally wide"
        if not held:
            note = "it starts with none of these contexts"
        lines.append(Content.assemble((f"{'':>14}{note}", DIM)))
        return Content("\n").join(lines)


def _amount(room: Room) -> tuple[str, str]:
    """How many, and the band; nothing where it does not start."""
    if room.answer is Answer.NO:
        return "", ""
    number, _, band = times_band(room.requests).partition(" ")
    return number, band


def _line(
    room: Room, here: bool, scale: float, width: int, mark: int, numbers: tuple[int, int]
) -> Content:
    sign, _, style = ANSWERS[room.answer]
    held = room.requests.value
    full = 0 if room.answer is Answer.NO else max(1, round(scale * log2(1 + held)))
    cells = ["━" if column < full else " " for column in range(width)]
    if 0 < mark <= width:
        cells[mark - 1] = "┿" if mark <= full else "│"
    number, band = _amount(room)
    return Content.assemble(
        (f"{'▸' if here else ' '} {room.context:>9,}   ", "bold" if here else ""),
        ("".join(cells), style),
        (f" {number:>{numbers[0]}}", "bold"),
        f" {band:<{numbers[1]}} ",
        (f"{sign} {_WORDS[room.answer]}", style),
    )
