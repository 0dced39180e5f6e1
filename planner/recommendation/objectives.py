"""What serves an objective better than the settings nearest to vLLM's defaults."""

from __future__ import annotations

from typing import Final

from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.recommendation.leeway import leeway
from planner.recommendation.longest import longest_context
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.settings import roomy_axes, small_batch, throughput_settings
from planner.recommendation.settled import Settled, speed_or_none, works

# More tokens a second must be so many more to be worth a departure from vLLM's defaults.
_WORTH_IT: Final = 1.05


def for_objective(settled: Settled, requirements: Requirements) -> Settled:
    """What serves the objective better than the nearest to vLLM's defaults that works."""
    memory, release = settled.memory, settled.memory.release
    match requirements.aim:
        case Objective.CONTEXT:
            return _with_longest_context(settled, requirements)
        case Objective.LATENCY:
            return _with_drafts(settled, requirements)
        case Objective.THROUGHPUT:
            best, most = settled, _tokens_per_second(settled.memory, requirements)
            for config, reasons in throughput_settings(memory, settled.reasons):
                try:
                    other = plan_memory(memory.card, memory.rig, config, vllm=release)
                except Refused:
                    continue
                if not works(other, requirements) or leeway(other) < min(0.0, leeway(memory)):
                    continue
                rate = _tokens_per_second(other, requirements)
                if rate > most * _WORTH_IT:
                    best, most = Settled(other, None, reasons), rate
            return best
    return settled


def _with_drafts(settled: Settled, requirements: Requirements) -> Settled:
    """With the speculative method and number of tokens that surely gain most, if any do."""
    from planner.recommendation.speculation import speculation_or_none

    choice = speculation_or_none(settled, requirements)
    chosen = choice.chosen if choice is not None else None
    if chosen is None or chosen.memory is None or chosen.gain is None:
        return settled
    if chosen.gain.low < 1 or not works(chosen.memory, requirements):
        return settled
    gain = f"{chosen.gain.value:.1f} [{chosen.gain.low:.1f}-{chosen.gain.high:.1f}]"
    reasons = {**settled.reasons, "speculative_config": f"{gain} times as fast, as predicted"}
    if chosen.memory.config.given.max_num_seqs != settled.config.max_num_seqs:
        reasons["max_num_seqs"] = "so many that a step has room for the drafts of each"
    return Settled(chosen.memory, None, reasons)


def _with_longest_context(settled: Settled, requirements: Requirements) -> Settled:
    memory, given = settled.memory, settled.config
    dtypes, shares = roomy_axes(memory)
    config = small_batch(memory, requirements)
    longest = longest_context(
        memory, config, requirements, kv_cache_dtypes=dtypes, utilizations=shares
    )
    if longest is None:
        return settled
    reasons = {**settled.reasons, "max_model_len": "all that fits"}
    reasons["max_num_seqs"] = "a small batch, so that its buffers leave room"
    if longest.config.given.kv_cache_dtype != given.kv_cache_dtype:
        reasons["kv_cache_dtype"] = "halves the KV cache, for a longer context"
    if longest.config.gpu_memory_utilization > memory.config.gpu_memory_utilization:
        reasons["gpu_memory_utilization"] = "more than the default, for a longer context"
    return Settled(longest, None, reasons)


def _tokens_per_second(memory: MemoryPlan, requirements: Requirements) -> float:
    speed = speed_or_none(memory, requirements)
    return speed.total.value if speed is not None else 0.0
