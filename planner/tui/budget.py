"""How the parts of a GPU's memory look: by letter, pattern and colour, each of which is enough."""

from __future__ import annotations

from typing import Final

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


def spent(memory: MemoryPlan, rank: RankMemory) -> list[Part]:
    """What a bar shows of a rank."""
    return [part for part in budget(memory, rank) if part.spends]


def listed(memory: MemoryPlan) -> list[Part]:
    """What its legend names: that of the tightest rank, and what is missing there."""
    return [part for part in budget(memory) if part.spends or part.letter == "!"]
