"""What a launch keeps in the host's memory, pinned so that GPUs can read it."""

from __future__ import annotations

from model_cards.modules import HostTable
from planner.memory.plan import MemoryPlan


def host_bytes(memory: MemoryPlan) -> int:
    """Bytes on one node: offloaded weights of its ranks, and the lookup tables of the model.

    Tables are counted once: ranks share them.
    """
    given = memory.config.given
    ranks = given.tensor_parallel_size * given.data_parallel_size
    offloaded = sum(rank.parts.offloaded for rank in memory.ranks) * ranks
    tables = sum(
        module.bytes
        for layer in memory.card.layers
        for module in layer.modules
        if isinstance(module, HostTable)
    )
    return offloaded // given.nnodes + tables
