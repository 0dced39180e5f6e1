"""The parts of a GPU's memory, each with a letter and a pattern, so that no colour is needed."""

from __future__ import annotations

from dataclasses import dataclass

from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the budget. `source` says what it was taken from."""

    letter: str
    pattern: str
    name: str
    style: str
    size: Quantity
    source: str


def parts(memory: MemoryPlan) -> tuple[Part, ...]:
    """The budget of the tightest GPU, in the order in which it is spent."""
    rank = memory.tightest
    graphs = "" if rank.graphs_counted else ", not counted by this release"
    cache = memory.kv_cache.num_blocks
    each = (
        ("W", "█", "weights", "$primary", rank.weights, rank.weights.source),
        ("B", "▓", "buffers", "$accent", Quantity.exact(rank.buffers.total), "kept after loading"),
        ("A", "▒", "activation peak", "$secondary", rank.activation, rank.activation.source),
        ("N", "░", "outside torch", "$warning", rank.non_torch, rank.non_torch.source),
        ("G", "▚", "CUDA graphs", "$error", rank.cuda_graphs, rank.cuda_graphs.source + graphs),
        ("K", "≡", "KV cache", "$success", rank.kv_cache, f"what is left: {cache:,} blocks"),
        (".", "·", "left over", "$foreground 50%", memory.left_over, "not requested by vLLM"),
    )
    return tuple(Part(*row) for row in each if row[4].value)


def counted(memory: MemoryPlan) -> tuple[Part, ...]:
    """The parts that add up to the device; where they are too large, those that do not fit."""
    rank = memory.tightest
    hidden = set()
    if not rank.graphs_counted:
        hidden.add("G")
    if rank.kv_cache.value < 0:
        hidden.add(".")
    return tuple(part for part in parts(memory) if part.letter not in hidden)
