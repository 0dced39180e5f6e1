"""What a GPU's memory is spent on, part by part, as it is shown."""

from __future__ import annotations

from msgspec import Struct

from planner.memory.plan import MemoryPlan, RankMemory
from planner.quantity import Quantity


class Part(Struct, frozen=True):
    """One part of the budget, in bytes. `letter` stands for it where it is drawn.

    `spends`: it takes room on the GPU. Others are only told of: graphs that a release does not
    count, and what is missing where the rest is too large.
    """

    letter: str
    name: str
    size: Quantity
    source: str
    spends: bool = True


def budget(memory: MemoryPlan, rank: RankMemory | None = None) -> tuple[Part, ...]:
    """The parts of a rank, by default the tightest, in the order in which they are spent.

    Those that spend add up to the device, or to more than it where something is missing.
    """
    rank = rank or memory.tightest
    draft = Quantity.exact(rank.parts.draft, "of speculative decoding")
    weights = rank.weights - draft if rank.parts.draft else rank.weights
    graphs = "" if rank.graphs_counted else ", not counted by this release"
    parts = (
        Part("W", "weights", weights, rank.weights.source),
        Part("D", "draft", draft, draft.source),
        Part("B", "buffers", Quantity.exact(rank.buffers.total), "kept after loading"),
        Part("A", "activation peak", rank.activation, rank.activation.source),
        Part("N", "outside torch", rank.non_torch, rank.non_torch.source),
        Part("G", "CUDA graphs", rank.cuda_graphs, rank.cuda_graphs.source + graphs,
             rank.graphs_counted),
        _cache(memory, rank),
        Part(".", "not requested", memory.left_over, "kept from vLLM", rank.kv_cache.value >= 0),
    )  # fmt: skip
    return tuple(part for part in parts if part.size.value)


def _cache(memory: MemoryPlan, rank: RankMemory) -> Part:
    if rank.kv_cache.value < 0:
        missing = rank.kv_cache.times(-1)
        return Part("!", "missing", missing, "before there is any KV cache", spends=False)
    source = f"what is left: {memory.kv_cache.num_blocks:,} blocks"
    return Part("K", "KV cache", rank.kv_cache, source)
