"""Requests at once against tokens per second, below the roofs that the hardware sets."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Final

from textual.content import Content

from planner.cli.format import rate_band, seconds_band
from planner.errors import PlanError
from planner.speed.acceptance import task_of
from planner.speed.roofline import RoofPoint, roofline
from planner.tui.outcome import Outcome
from planner.tui.show import DIM
from planner.tui.widgets.study import Study

_MOST: Final = 512  # requests at once
_BESIDE: Final = 11  # columns in front of the bar, and one left free
_NARROWEST: Final = 8
_FIRST: Final = "first token"

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
        told = [_numbers(point) for point in answer]
        widths = [max(map(len, texts)) for texts in zip(*told, strict=True)]
        widths[-1] = max(widths[-1], len(_FIRST))
        bar = max(_NARROWEST, width - _BESIDE - sum(widths) - len(widths))
        scale = bar / log2(1 + max(max(point.roof, point.speed.total.value) for point in answer))
        now = outcome.settings.concurrency
        total, total_band, each, each_band, first = widths
        heading = (
            f"{'at once':>9} {'tok/s together':<{bar + total + total_band + 2}} "
            f"{'each':<{each + each_band + 1}} {_FIRST:>{first}}"
        )
        lines = [Content.assemble((heading, DIM))]
        for point, texts in zip(answer, told, strict=True):
            here = point.concurrency == now
            lines.append(Content.assemble(*_bar(point, here, scale, bar), *_placed(texts, widths)))
        lines += [Content.assemble((line, DIM)) for line in _notes(answer)]
        return Content("\n").join(lines)


def _numbers(point: RoofPoint) -> tuple[str, ...]:
    """Tokens a second of all and of each with their bands, time to the first with its own."""
    speed = point.speed
    together, _, band = rate_band(speed.total).partition(" ")
    each, _, each_band = rate_band(speed.per_user).partition(" ")
    first = "-" if speed.ttft_loaded is None else seconds_band(speed.ttft_loaded)
    return together, band, each, each_band, first


def _bar(point: RoofPoint, here: bool, scale: float, width: int) -> tuple[tuple[str, str], ...]:
    full = min(width, max(1, round(scale * log2(1 + point.speed.total.value))))
    roof = min(width, round(scale * log2(1 + point.roof)))
    letter = "┄" if point.reads_most else "┈"
    return (
        (f"{'▸' if here else ' '} {point.concurrency:>7,} ", "bold" if here else ""),
        ("━" * full, "$success"),
        (letter * max(0, roof - full) + " " * (width - max(full, roof)), DIM),
    )


def _placed(texts: Sequence[str], widths: Sequence[int]) -> list[tuple[str, str]]:
    """Numbers at the right of their columns, bands at the left."""
    numbers = (0, 2, 4)
    placed = [
        f"{text:>{width}}" if at in numbers else f"{text:<{width}}"
        for at, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]
    return [(f" {text}", "" if at else "bold") for at, text in enumerate(placed)]


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
        notes.append(f"from {waits[0]:,} on the KV cache holds fewer; the rest wait for their turn")
    return notes
