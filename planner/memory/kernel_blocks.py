"""Kernel blocks: whether the attention kernels can take the blocks that the cache is made of.

vLLM finds out when it allocates the cache, with its size already printed (v1/worker/utils.py:
`select_common_block_size`; v1/kv_cache_interface.py: `create_kv_cache_views`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from planner.engine.backend import AttentionBackend
from planner.memory.kv_groups import KVCacheGroup


def kernel_problem(
    groups: Iterable[KVCacheGroup], backends: Sequence[AttentionBackend | None]
) -> str | None:
    """Why the kernels can take the blocks neither whole nor split; None if they can.

    `backends` are those of the caches in order, None for recurrent states.
    """
    for group in groups:
        size = group.block_size
        own = {backend for layer in group.layers if (backend := backends[layer]) is not None}
        names = ", ".join(sorted(backend.name for backend in own))
        kernel = kernel_block(size, own)
        if kernel is None:
            return f"no kernel block of {names} fits a block size of {size}"
        if kernel != size and any(spec.padded for spec in group.specs):
            return (
                f"{names} would have to split blocks of {size} tokens into kernel blocks of "
                f"{kernel}, but they are padded to the size of other layers' blocks"
            )
    return None


def kernel_block(block_size: int, backends: Collection[AttentionBackend]) -> int | None:
    """What blocks of this size are split into for all backends; None if they share none."""
    fixed = {size for b in backends if not b.multiples for size in b.kernel_blocks}
    parts = sorted((size for size in fixed if block_size % size == 0), reverse=True)
    shared = (size for size in (block_size, *parts) if all(b.runs(size) for b in backends))
    return next(shared, None)
