"""Many settings of one model at once: what starts, and how much cache each gets.

What a setting changes of the budget is planned once for every batch limit and cache dtype; the
utilization, the context and the number of requests then follow for all of them as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.defaults import resolve
from planner.engine.device import Platform, device_facts
from planner.engine.releases import Release, find_release
from planner.engine_config import EngineConfig
from planner.errors import PlanError
from planner.memory.free_memory import start_margin, taken_at_start
from planner.memory.kv_cache import dealt_tokens
from planner.memory.kv_groups import KVCacheGroup
from planner.memory.plan import MemoryPlan, Refused, plan_memory, state_blocks_of_batch

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


class Sweep(Struct, frozen=True):
    """A grid of settings; every array has one dimension for each of `AXES`.

    Where vLLM refuses a setting by a rule, less is free at the start than is asked for, or the
    cache cannot hold one request, or the recurrent states of a full batch, `fits` is False; what
    breaks a rule has no cache at all.
    """

    axes: dict[str, tuple[object, ...]]
    kv_cache_bytes: NDArray[np.float64]  # of the tightest rank, as expected
    num_blocks: NDArray[np.int64]
    kv_tokens: NDArray[np.int64]  # as vLLM prints them
    max_concurrency: NDArray[np.float64]
    # With the pool at the ends of its band: that of the first utilization, moved for the others.
    max_concurrency_low: NDArray[np.float64]
    max_concurrency_high: NDArray[np.float64]
    fits: NDArray[np.bool_]
    fits_surely: NDArray[np.bool_]  # also with the pool at the lower end of its band
    fits_perhaps: NDArray[np.bool_]  # at least with the pool at the upper end of its band

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
    draft: ModelCard | None = None,
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
    axes = (kv_cache_dtype, max_num_seqs, max_num_batched_tokens, shares, lengths)
    shape = tuple(len(axis) for axis in axes)
    swept = Sweep(
        dict(zip(AXES, map(tuple, axes), strict=True)),
        kv_cache_bytes=np.zeros(shape),
        num_blocks=np.zeros(shape, np.int64),
        kv_tokens=np.zeros(shape, np.int64),
        max_concurrency=np.zeros(shape),
        max_concurrency_low=np.zeros(shape),
        max_concurrency_high=np.zeros(shape),
        fits=np.zeros(shape, bool),
        fits_surely=np.zeros(shape, bool),
        fits_perhaps=np.zeros(shape, bool),
    )
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
        )
        for alike in _planned_alike(card, rig, given, release, lengths, draft):
            try:
                longest = replace(given, max_model_len=max(lengths[index] for index in alike))
                memory = plan_memory(card, rig, longest, draft=draft, vllm=release)
            except Refused:
                continue
            if memory.starts.breaks_a_rule and len(alike) > 1:
                # Perhaps only the length does.
                shortest = replace(given, max_model_len=min(lengths[index] for index in alike))
                memory = plan_memory(card, rig, shortest, draft=draft, vllm=release)
            if not memory.starts.breaks_a_rule:
                _fill(swept, (d, s, t), memory, shares, lengths, alike)
    return swept


def _planned_alike(
    card: ModelCard,
    rig: Rig,
    config: EngineConfig,
    release: Release,
    lengths: list[int],
    draft: ModelCard | None,
) -> list[list[int]]:
    """Indices of the lengths by the batch limits that vLLM resolves with each.

    Each alone for a launch with a draft, some of whose buffers grow with the length.
    """
    if draft is not None:
        return [[index] for index in range(len(lengths))]
    device = device_facts(rig.smallest.gpu)

    def batch(length: int) -> tuple[int, int]:
        resolved = resolve(card, device, replace(config, max_model_len=length), release)
        return resolved.max_num_seqs, resolved.max_num_batched_tokens

    if batch(min(lengths)) == batch(max(lengths)):  # neither limit ever falls with the length
        return [list(range(len(lengths)))]
    found: dict[tuple[int, int], list[int]] = {}
    for index, length in enumerate(lengths):
        found.setdefault(batch(length), []).append(index)
    return list(found.values())


def _fill(
    swept: Sweep,
    at: tuple[int, int, int],
    memory: MemoryPlan,
    shares: Sequence[float],
    lengths: Sequence[int],
    alike: Sequence[int],
) -> None:
    """What follows of one plan for every utilization and for the lengths with these indices."""
    import numpy as np

    release, groups = memory.release, memory.kv_cache.groups
    pools, blocks, blocks_low, blocks_high = _pools(memory, shares)
    of_length = [lengths[index] for index in alike]
    accepted = np.asarray(of_length) <= memory.card.max_model_len
    in_flight = memory.config.in_flight_tokens
    needed = _request_blocks(groups, np.asarray(of_length), in_flight)
    held = 1 if release.fact("null_block_reserved_in_fit_check") else 0
    states = state_blocks_of_batch(memory.card, memory.config, release)
    least = np.maximum(needed + held, states)
    num_blocks = np.where(accepted, blocks[:, None], 0)
    one = np.maximum(needed, 1)
    concurrency = num_blocks / one
    if release.fact("kv_tokens_by_concurrency") or not groups:
        tokens = (concurrency * np.asarray(of_length)).astype(np.int64)
    else:
        tokens = np.where(accepted, [[dealt_tokens(int(n), groups)] for n in blocks], 0)
    free, surely_free, perhaps_free = _starts(memory, shares)
    where = np.ix_(*([index] for index in at), range(len(shares)), alike)
    box = (1, 1, 1, len(shares), len(of_length))
    for array, values in (
        (swept.kv_cache_bytes, np.broadcast_to(pools[:, None], box[3:])),
        (swept.num_blocks, num_blocks),
        (swept.kv_tokens, tokens),
        (swept.max_concurrency, concurrency),
        (swept.max_concurrency_low, np.where(accepted, blocks_low[:, None], 0) / one),
        (swept.max_concurrency_high, np.where(accepted, blocks_high[:, None], 0) / one),
        (swept.fits, accepted & free & (least <= blocks[:, None])),
        (swept.fits_surely, accepted & surely_free & (least <= blocks_low[:, None])),
        (swept.fits_perhaps, accepted & perhaps_free & (least <= blocks_high[:, None])),
    ):
        array[where] = values.reshape(box)


def _request_blocks(
    groups: Sequence[KVCacheGroup], lengths: NDArray[np.int64], in_flight_tokens: int
) -> NDArray[np.int64]:
    """`request_blocks` for many lengths."""
    import numpy as np

    total = np.zeros(len(lengths), np.int64)
    for group in groups:
        blocks = np.zeros(len(lengths), np.int64)
        for spec in group.distinct:
            if spec.fixed_blocks is not None:
                blocks = np.maximum(blocks, spec.fixed_blocks)
                continue
            most = spec.most_tokens(in_flight_tokens)
            tokens = (
                np.minimum(lengths, most) if most is not None else -(-lengths // spec.context_ranks)
            )
            blocks = np.maximum(blocks, -(-tokens // spec.block_size) + spec.spare_blocks)
        total += blocks
    return total


def _starts(memory: MemoryPlan, shares: Sequence[float]) -> tuple[NDArray[np.bool_], ...]:
    """For every utilization, one a row: whether so much is expected to be free, surely, perhaps."""
    import numpy as np

    slot = memory.rig.smallest
    tensor_parallel = memory.config.given.tensor_parallel_size
    taken = taken_at_start(slot, memory.device, memory.release, tensor_parallel)
    margins = [start_margin(slot, taken, share) for share in shares]
    if memory.given_size_check is not None:
        given = memory.given_size_check.margin
        on_cpu = memory.device.platform is Platform.CPU  # which does not look at the share then
        margins = [given if on_cpu or given.value < margin.value else margin for margin in margins]
    checks = [memory.start.with_margin(margin) for margin in margins]
    expected = np.asarray([[check.margin.value >= 0] for check in checks])
    surely = np.asarray([[check.surely_passes] for check in checks])
    return expected, surely, np.asarray([[check.may_pass] for check in checks])


def _pools(
    memory: MemoryPlan, shares: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For every utilization: the tightest pool; the blocks in it and at the ends of its band."""
    import numpy as np

    more = np.asarray(shares) - memory.config.gpu_memory_utilization
    if memory.config.kv_cache_memory_bytes is not None:
        more = np.zeros_like(more)
    total = memory.device_total.value
    sizes = np.maximum(np.asarray(memory.kv_cache.bytes_per_block)[:, None], 1)
    override = memory.config.given.num_gpu_blocks_override
    pools = [rank.kv_cache for rank in memory.ranks]

    def grown(ends: Sequence[float]) -> NDArray[np.float64]:
        return np.asarray(ends)[:, None] + more * total

    def blocks(pool: NDArray[np.float64]) -> NDArray[np.int64]:
        whole: NDArray[np.int64] = (np.maximum(pool, 0).astype(np.int64) // sizes).min(0)
        return whole if override is None else np.full_like(whole, override)

    values = grown([pool.value for pool in pools])
    low, high = grown([pool.low for pool in pools]), grown([pool.high for pool in pools])
    return values.min(0), blocks(values), blocks(low), blocks(high)
