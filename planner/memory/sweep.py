"""Many settings of one model at once: what starts, and how much cache each gets.

What a setting changes of the budget is planned once for every batch limit and cache dtype; the
utilization, the context and the number of requests then follow for all of them as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.releases import Release, find_release
from planner.engine_config import EngineConfig
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan, Refused, plan_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Axes of a sweep, in the order of the dimensions of its arrays.
AXES = (
    "kv_cache_dtype",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "max_model_len",
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A grid of settings; every array has one dimension for each of `AXES`.

    Where vLLM refuses a setting by a rule, or its cache cannot hold one request, `fits` is False;
    a setting that breaks a rule has no cache at all.
    """

    axes: dict[str, tuple[object, ...]]
    kv_cache_bytes: NDArray[np.float64]  # of the tightest rank, as expected
    num_blocks: NDArray[np.int64]
    kv_tokens: NDArray[np.int64]  # as vLLM prints them
    max_concurrency: NDArray[np.float64]
    fits: NDArray[np.bool_]
    fits_surely: NDArray[np.bool_]  # also with the pool at the lower end of its band

    def serves(self, requests: Sequence[int]) -> NDArray[np.bool_]:
        """Whether so many requests of full length fit at once: one more dimension, the last."""
        import numpy as np

        wanted = np.asarray(requests)
        return self.fits[..., None] & (self.max_concurrency[..., None] >= wanted)


def sweep_memory(
    card: ModelCard,
    rig: Rig,
    config: EngineConfig | None = None,
    *,
    max_model_len: Sequence[int],
    max_num_seqs: Sequence[int | None] = (None,),
    max_num_batched_tokens: Sequence[int | None] = (None,),
    kv_cache_dtype: Sequence[str] = ("auto",),
    gpu_memory_utilization: Sequence[float | None] = (None,),
    vllm: str | Release | None = None,
) -> Sweep:
    """The memory of a launch for every combination of these settings.

    Each value is what `plan_memory` gives for it. Raises `PlanError` as that does.
    """
    import numpy as np

    config = config or EngineConfig()
    release = vllm if isinstance(vllm, Release) else find_release(vllm)
    default = float(release.fact("gpu_memory_utilization"))
    shares = [default if share is None else share for share in gpu_memory_utilization]
    lengths = list(max_model_len)
    if not lengths or not shares:
        raise PlanError("a sweep needs at least one context length and one utilization")
    shape = (
        len(kv_cache_dtype),
        len(max_num_seqs),
        len(max_num_batched_tokens),
        len(shares),
        len(lengths),
    )
    pools, low = np.zeros(shape), np.zeros(shape)
    blocks, per_request = np.zeros(shape, np.int64), np.ones(shape, np.int64)
    dealt = np.zeros(shape, np.int64)
    fits, surely = np.zeros(shape, bool), np.zeros(shape, bool)
    limits = product(
        enumerate(kv_cache_dtype), enumerate(max_num_seqs), enumerate(max_num_batched_tokens)
    )
    for (d, dtype), (s, seqs), (t, batched) in limits:
        given = replace(
            config,
            kv_cache_dtype=dtype,
            max_num_seqs=seqs,
            max_num_batched_tokens=batched,
            gpu_memory_utilization=shares[0],
            max_model_len=min(lengths),
        )
        try:
            memory = plan_memory(card, rig, given, vllm=release)
        except Refused:
            continue
        if memory.starts.breaks_a_rule:
            continue
        at = (d, s, t)
        accepted = np.asarray(lengths) <= card.max_model_len
        expected, lower, num_blocks, num_low = _pools(memory, shares)
        pools[at], low[at] = expected[:, None], lower[:, None]
        blocks[at] = np.where(accepted, num_blocks[:, None], 0)
        needed = np.asarray([_request_blocks(memory, length) for length in lengths])
        per_request[at] = np.maximum(needed, 1)
        groups = memory.kv_cache.groups
        if groups:
            share = blocks[at] // len(groups)
            dealt[at] = share * min(group.block_size for group in groups)
        held = 1 if release.fact("null_block_reserved_in_fit_check") else 0
        fits[at] = accepted & (needed <= num_blocks[:, None] - held)
        surely[at] = accepted & (needed <= num_low[:, None] - held)
    concurrency = blocks / per_request
    tokens = (concurrency * np.asarray(lengths)).astype(np.int64)
    if not release.fact("kv_tokens_by_concurrency"):
        tokens = dealt
    return Sweep(
        dict(
            zip(
                AXES,
                (
                    tuple(kv_cache_dtype),
                    tuple(max_num_seqs),
                    tuple(max_num_batched_tokens),
                    tuple(shares),
                    tuple(lengths),
                ),
                strict=True,
            )
        ),
        pools,
        blocks,
        tokens,
        concurrency,
        fits,
        surely,
    )


def _pools(
    memory: MemoryPlan, shares: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """For every utilization: the tightest pool, its lower end, and the blocks in both."""
    import numpy as np

    more = np.asarray(shares) - memory.config.gpu_memory_utilization
    if memory.config.kv_cache_memory_bytes is not None:
        more = np.zeros_like(more)
    total = memory.device_total.value
    values = np.asarray([rank.kv_cache.value for rank in memory.ranks])[:, None] + more * total
    lows = np.asarray([rank.kv_cache.low for rank in memory.ranks])[:, None] + more * total
    sizes = np.asarray(memory.kv_cache.bytes_per_block)[:, None]
    whole = np.maximum(values, 0).astype(np.int64) // np.maximum(sizes, 1)
    least = np.maximum(lows, 0).astype(np.int64) // np.maximum(sizes, 1)
    override = memory.config.given.num_gpu_blocks_override
    if override is not None:
        whole, least = np.full_like(whole, override), np.full_like(least, override)
    return values.min(0), lows.min(0), whole.min(0), least.min(0)


def _request_blocks(memory: MemoryPlan, length: int) -> int:
    """Blocks of one request of `length` tokens over all groups."""
    in_flight = memory.config.in_flight_tokens
    return sum(group.blocks_per_request(length, in_flight) for group in memory.kv_cache.groups)
