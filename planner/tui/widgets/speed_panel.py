"""Requests at once against tokens per second, below the roofs that the hardware sets."""

from __future__ import annotations

from math import log2
from typing import Final

from textual.content import Content

from planner.cli.format import rate_band, seconds
from planner.errors import PlanError
from planner.speed.acceptance import task_of
from planner.speed.roofline import RoofPoint, roofline
from planner.tui.outcome import Outcome
from planner.tui.show import DIM
from planner.tui.widgets.study import Study

_MOST: Final = 512  # requests at once
_BESIDE: Final = 60  # columns that are not bar, some left free
_NARROWEST: Final = 8

Points = tuple[RoofPoint, ...]


class SpeedPanel(Study[Points]):
    """A bar for each number of requests; its lighter end is the roof."""

    BORDER_TITLE = "Speed by concurrency"

    def ask(self, outcome: Outcome) -> Points:
        """The speed with every number of requests."""
        memory = outcome.memory
        if memory is None or outcome.speed is None:
            raise PlanError(outcome.no_speed)
        now = outcome.settings.concurrency
        most = max(now, min(_MOST, memory.config.max_num_seqs))
        powers = [2**power for power in range(10) if 2**power <= most]
        task = task_of(outcome.settings.use_case)
        return roofline(memory, outcome.settings.workload, sorted({*powers, now}), task=task)

    def draw_answer(self, answer: Points, outcome: Outcome, width: int) -> Content:
        """A line for each number of requests."""
        bar = max(_NARROWEST, width - _BESIDE)
        scale = bar / log2(1 + max(max(point.roof, point.speed.total.value) for point in answer))
        heading = f"{'at once':>9}  {'tok/s together':<{bar + 21}}{'each':>4}{'first token':>22}"
        now = outcome.settings.concurrency
        lines = [Content.assemble((heading, DIM))]
        lines += [_line(point, point.concurrency == now, scale, bar) for point in answer]
        lines += [Content.assemble((line, DIM)) for line in _notes(answer)]
        return Content("\n").join(lines)


def _line(point: RoofPoint, here: bool, scale: float, width: int) -> Content:
    speed = point.speed
    full = min(width, max(1, round(scale * log2(1 + speed.total.value))))
    roof = min(width, round(scale * log2(1 + point.roof)))
    letter = "┄" if point.reads_most else "┈"
    first = "-" if speed.ttft is None else seconds(speed.ttft.value)
    together, _, band = rate_band(speed.total).partition(" ")
    each, _, each_band = rate_band(speed.per_user).partition(" ")
    return Content.assemble(
        (f"{'▸' if here else ' '} {point.concurrency:>7,}  ", "bold" if here else ""),
        ("━" * full, "$success"),
        (letter * max(0, roof - full) + " " * (width - max(full, roof)), DIM),
        (f" {together:>5} ", "bold"),
        f"{band:<13} {each:>4} {each_band:<10}{first:>11}",
    )


def _notes(points: Points) -> list[str]:
    """What bounds it where."""
    notes = ["┄ up to the roofline of reading memory; each doubling is equally wide"]
    computing = [point.concurrency for point in points if not point.reads_most]
    if computing:
        notes.append(f"┈ from {computing[0]:,} at once on up to that of computing")
    elif points[0].computing is not None:
        notes.append(f"the roofline of computing is far off: {points[0].computing:,.0f} tok/s")
    waits = [point.concurrency for point in points if point.speed.admitted < point.concurrency]
    if waits:
        notes.append(
            f"from {waits[0]:,} on the KV cache holds fewer; the rest wait, not counted here"
        )
    return notes
