"""How the parts of a GPU's memory look: by letter, pattern and colour, each of which is enough."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from planner.memory.budget import Part, budget
from planner.memory.plan import MemoryPlan, RankMemory

# Pattern and style of the parts by their letters.
LOOKS: Final = {
    "W": ("█", "$primary"),
    "D": ("▞", "$primary"),
    "B": ("▓", "$accent"),
    "A": ("▒", "$secondary"),
    "N": ("░", "$warning"),
    "G": ("▚", "$error"),
    "K": ("≡", "$success"),
    ".": ("·", "$foreground 50%"),
    "?": ("?", "$foreground 70%"),  # in logs: not said what for
    "!": ("!", "$text-error"),
}
UNSURE: Final = "╱"  # how far a part may be smaller


def spent(memory: MemoryPlan, rank: RankMemory) -> list[Part]:
    """What a bar shows of a rank."""
    return [part for part in budget(memory, rank) if part.spends]


def listed(memory: MemoryPlan) -> list[Part]:
    """What its legend names: that of the tightest rank, and what is missing there."""
    return [part for part in budget(memory) if part.spends or part.letter == "!"]


def letters(memory: MemoryPlan) -> dict[str, str]:
    """Those of the parts, by their names."""
    return {part.name: part.letter for part in budget(memory)}


def columns_of_a_byte(memory: MemoryPlan, width: int) -> float:
    """So that a bar holds the device, or all that is asked of it if that is more."""
    asked = [sum(part.size.value for part in spent(memory, rank)) for rank in memory.ranks]
    return width / max(*asked, memory.device_total.value, 1.0)


def bar(memory: MemoryPlan, rank: RankMemory, scale: float, width: int) -> Content:
    """The parts of a rank in so many columns, of which each that is there gets at least one.

    A part begins with its letter. As far as it may be smaller by its band it is hatched: the KV
    cache at its beginning, which other parts may take; these at their ends, where they may stop.
    """
    shown = spent(memory, rank)
    pieces: list[tuple[str, str]] = []
    left, end = width, 0.0
    for index, part in enumerate(shown):
        after = len(shown) - index - 1
        end += part.size.value * scale
        columns = max(1, min(left - after, round(end) - (width - left)))
        pieces.append(_piece(part, columns, scale))
        left -= columns
    return Content.assemble(*pieces)


def _piece(part: Part, width: int, scale: float) -> tuple[str, str]:
    pattern, style = LOOKS[part.letter]
    unsure = 0
    if part.letter != ".":  # which is what nobody asked for
        unsure = min(width - 1, round((part.size.value - part.size.low) * scale))
    sure, unsure_text = pattern * (width - 1 - unsure), UNSURE * unsure
    rest = unsure_text + sure if part.letter == "K" else sure + unsure_text
    return part.letter + rest, style
