"""Whether the planned KV cache can be allocated: what vLLM finds out with its size already printed.

v1/worker/utils.py (`select_common_block_size`, `allocate_kv_cache`) and v1/kv_cache_interface.py
(`create_kv_cache_views`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from planner.engine.backend import AttentionBackend
from planner.memory.kv_groups import KVCacheGroup


def allocation_problem(
    groups: Sequence[KVCacheGroup],
    stages: Sequence[frozenset[int]],
    backends: Sequence[AttentionBackend | None],
    *,
    block_outermost: bool,
) -> str | None:
    """Why the cache cannot be allocated as planned; None if it can.

    `stages` are the indices of the caches on each pipeline stage, `backends` those of the caches
    in order, None for recurrent states.
    """
    if block_outermost:  # blocks are never split then
        return _missing_group(groups, stages)
    for stage in stages:
        for group in groups:
            own = {backends[layer] for layer in group.layers if layer in stage}
            problem = _kernel_problem(group, [each for each in own if each is not None])
            if problem is not None:
                return problem
    return None


def _missing_group(groups: Sequence[KVCacheGroup], stages: Sequence[frozenset[int]]) -> str | None:
    """Groups of packed pages are looked for on every stage."""
    packed = len({spec.page_size_bytes for group in groups for spec in group.distinct}) > 1
    several = packed and len(groups) > 1
    if several and any(stage.isdisjoint(group.layers) for stage in stages for group in groups):
        return "a pipeline stage has no layer of one of the KV cache groups, which vLLM looks for"
    return None


def _kernel_problem(group: KVCacheGroup, backends: Collection[AttentionBackend]) -> str | None:
    size, kernel = group.block_size, kernel_block(group.block_size, backends)
    names = ", ".join(sorted(backend.name for backend in backends))
    if kernel is None:
        return f"no kernel block of {names} fits a block size of {size}"
    if kernel != size and any(spec.padded for spec in group.specs):
        return (
            f"{names} would have to split blocks of {size} tokens into kernel blocks of {kernel}, "
            "but they are padded to the size of other layers' blocks"
        )
    return None


def kernel_block(block_size: int, backends: Collection[AttentionBackend]) -> int | None:
    """What blocks of this size are split into for all backends; None if they share none."""
    fixed = {size for b in backends if not b.multiples for size in b.kernel_blocks}
    parts = sorted((size for size in fixed if block_size % size == 0), reverse=True)
    shared = (size for size in (block_size, *parts) if all(b.runs(size) for b in backends))
    return next(shared, None)
