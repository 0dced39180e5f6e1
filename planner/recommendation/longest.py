"""The longest context that a model serves on a rig for sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from model_cards.card import ANY_LENGTH
from planner.engine_config import EngineConfig
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.sweep import sweep_memory
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements

_GRAIN: Final = 256  # contexts are looked at in whole multiples
_NO_LIMIT: Final = 2**20  # for models that have none
_TRIES: Final = 4
_SHORTER: Final = 0.97  # where a rule that a sweep does not know stops the longest


def longest_context(
    memory: MemoryPlan,
    config: EngineConfig,
    requirements: Requirements,
    *,
    kv_cache_dtypes: Sequence[str],
    utilizations: Sequence[float],
) -> MemoryPlan | None:
    """The plan with the longest context that as many requests as asked for may fill at once.

    Looks at every KV cache type, share of the memory and length, of equals at the earliest in its
    list. `memory` is a plan of the same model that starts. None where nothing longer than its
    context does.
    """
    import numpy as np

    card, at_once = memory.card, requirements.workload.concurrency
    shortest = memory.config.max_model_len
    limit = _NO_LIMIT if card.max_model_len == ANY_LENGTH else card.max_model_len
    first = shortest // _GRAIN * _GRAIN + _GRAIN
    lengths = [*range(first, limit, _GRAIN), limit]
    swept = sweep_memory(
        card,
        memory.rig,
        config,
        max_model_len=lengths,
        max_num_seqs=(config.max_num_seqs,),
        kv_cache_dtype=kv_cache_dtypes,
        gpu_memory_utilization=utilizations,
        vllm=memory.release,
    )
    serves = swept.fits_surely & (swept.max_concurrency >= at_once)
    longest = np.where(serves.any(-1), serves.shape[-1] - np.argmax(serves[..., ::-1], -1), 0)
    if not longest.any():
        return None
    at = np.unravel_index(int(np.argmax(longest)), longest.shape)
    dtype, share = kv_cache_dtypes[int(at[0])], utilizations[int(at[3])]
    length = lengths[int(longest[at]) - 1]
    best = replace(config, kv_cache_dtype=dtype, gpu_memory_utilization=share)
    for _ in range(_TRIES):
        try:
            plan = plan_memory(
                card, memory.rig, replace(best, max_model_len=length), vllm=memory.release
            )
        except Refused:
            return None
        if plan.starts.answer is Answer.YES and plan.kv_cache.concurrency >= at_once:
            return plan
        length = int(length * _SHORTER) // _GRAIN * _GRAIN
        if length <= shortest:
            break
    return None
