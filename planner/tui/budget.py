"""The parts of a GPU's memory, each with a letter and a pattern, so that no colour is needed."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity

# Pattern and style of the parts by their letters, of which each alone tells them apart.
LOOKS: Final = {
    "W": ("█", "$primary"),
    "B": ("▓", "$accent"),
    "A": ("▒", "$secondary"),
    "N": ("░", "$warning"),
    "G": ("▚", "$error"),
    "K": ("≡", "$success"),
    ".": ("·", "$foreground 50%"),
    "?": ("?", "$foreground 70%"),  # in logs: not said what for
}


class Part(Struct, frozen=True):
    """One part of the budget. `source` says what it was taken from."""

    letter: str
    pattern: str
    style: str
    name: str
    size: Quantity
    source: str


def parts(memory: MemoryPlan) -> tuple[Part, ...]:
    """The budget of the tightest GPU, in the order in which it is spent."""
    rank = memory.tightest
    graphs = "" if rank.graphs_counted else ", not counted by this release"
    cache = memory.kv_cache.num_blocks
    each = (
        ("W", "weights", rank.weights, rank.weights.source),
        ("B", "buffers", Quantity.exact(rank.buffers.total), "kept after loading"),
        ("A", "activation peak", rank.activation, rank.activation.source),
        ("N", "outside torch", rank.non_torch, rank.non_torch.source),
        ("G", "CUDA graphs", rank.cuda_graphs, rank.cuda_graphs.source + graphs),
        ("K", "KV cache", rank.kv_cache, f"what is left: {cache:,} blocks"),
        (".", "left over", memory.left_over, "not requested by vLLM"),
    )
    return tuple(
        Part(letter, *LOOKS[letter], name, size, source)
        for letter, name, size, source in each
        if size.value
    )


def counted(memory: MemoryPlan) -> tuple[Part, ...]:
    """The parts that add up to the device; where they are too large, those that do not fit."""
    rank = memory.tightest
    hidden = set()
    if not rank.graphs_counted:
        hidden.add("G")
    if rank.kv_cache.value < 0:
        hidden.add(".")
    return tuple(part for part in parts(memory) if part.letter not in hidden)
