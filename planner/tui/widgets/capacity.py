"""Capacity: context against requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Final

from textual.content import Content

from planner.errors import PlanError
from planner.memory.sweep import sweep_memory
from planner.memory.verdict import Answer
from planner.tui.outcome import Outcome
from planner.tui.show import ANSWERS, DIM, plain
from planner.tui.widgets.panel import Panel

_SHORTEST: Final = 1024
_MOST_ROWS: Final = 16
_WORDS: Final = {Answer.YES: "starts", Answer.RISKY: "may not", Answer.NO: "does not"}
_BESIDE: Final = 36  # columns that are not bar


@dataclass(frozen=True, slots=True)
class Room:
    """How many requests of `context` tokens the cache holds at once, if it starts at all."""

    context: int
    requests: float
    answer: Answer


def capacity(outcome: Outcome) -> tuple[Room, ...]:
    """The sweep over contexts, up to the model's own. Raises `PlanError` where there is none."""
    inputs, config = outcome.inputs, outcome.settings.config
    if inputs.draft is not None:
        raise PlanError("not swept for launches with a draft model")
    contexts = _contexts(outcome)
    swept = sweep_memory(
        inputs.card,
        inputs.rig,
        replace(config, max_model_len=None),
        max_model_len=contexts,
        max_num_seqs=(config.max_num_seqs,),
        max_num_batched_tokens=(config.max_num_batched_tokens,),
        kv_cache_dtype=(config.kv_cache_dtype,),
        gpu_memory_utilization=(config.gpu_memory_utilization,),
        vllm=inputs.release,
    )
    rows = zip(
        contexts,
        swept.max_concurrency.ravel().tolist(),
        swept.fits.ravel().tolist(),
        swept.fits_surely.ravel().tolist(),
        strict=True,
    )
    return tuple(
        Room(length, held, Answer.YES if surely else Answer.RISKY if fits else Answer.NO)
        for length, held, fits, surely in rows
    )


def _contexts(outcome: Outcome) -> list[int]:
    """Powers of two, the context there is now and the longest."""
    most = outcome.inputs.card.max_model_len
    powers = [2**exponent for exponent in range(24) if _SHORTEST <= 2**exponent < most]
    now = [] if outcome.memory is None else [outcome.memory.config.max_model_len]
    return sorted({*powers[-_MOST_ROWS:], *now, most})


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
