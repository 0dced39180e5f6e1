"""Room beside the budget for what a launch takes and vLLM does not profile."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from msgspec.structs import replace

from planner.engine_config import EngineConfig
from planner.memory.constants import GIB
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.unprofiled import Unprofiled, unprofiled
from planner.recommendation.requirements import Requirements
from planner.recommendation.settled import Settled, works

_FEWEST_TOKENS = 1024  # smaller steps make prompts slow


def leeway(memory: MemoryPlan) -> float:
    """Bytes of a device that are left beside the budget and all that is not in it.

    Negative where a launch may run out of memory once it serves; infinite where nothing is known
    that vLLM does not profile.
    """
    return -max((each.missing for each in unprofiled(memory)), default=float("-inf"))


def with_leeway(settled: Settled, requirements: Requirements) -> Settled:
    """The same with room for what vLLM does not profile, if settings near by have it and work."""
    memory = settled.memory
    worst = max(unprofiled(memory), key=lambda each: each.missing, default=None)
    if worst is None or worst.missing <= 0:
        return settled
    for config, reasons in _roomier(settled, worst):
        try:
            plan = plan_memory(memory.card, memory.rig, config, vllm=memory.release)
        except Refused:
            continue
        if works(plan, requirements) and leeway(plan) >= 0:
            return Settled(plan, None, {**settled.reasons, **reasons})
    return settled


def _roomier(settled: Settled, worst: Unprofiled) -> Iterator[tuple[EngineConfig, dict[str, str]]]:
    """A smaller share of the memory, smaller steps or batches, or both; with reasons."""
    given, resolved = settled.config, settled.memory.config
    total = settled.memory.device_total.value

    def smaller_share(needed: float) -> tuple[float, dict[str, str]]:
        missing = needed - worst.left
        share = floor(100 * (resolved.gpu_memory_utilization - missing / total)) / 100
        why = f"leaves room for {needed / GIB:.1f} GiB that vLLM does not profile"
        return share, {"gpu_memory_utilization": why}

    share, why_share = smaller_share(worst.needed)
    if share > 0:
        yield replace(given, gpu_memory_utilization=share), why_share
    why = "half the usual, and so is what vLLM does not profile of it"
    if worst.kind == "prefill_peak":
        name, half = "max_num_batched_tokens", resolved.max_num_batched_tokens // 2
        if half < max(_FEWEST_TOKENS, resolved.max_num_seqs):
            return
    else:
        name, half = "max_num_seqs", resolved.max_num_seqs // 2
    halved = replace(given, **{name: half})
    yield halved, {name: why}
    share, why_share = smaller_share(worst.needed / 2)
    if 0 < share < resolved.gpu_memory_utilization:
        yield replace(halved, gpu_memory_utilization=share), {name: why, **why_share}
