"""The best settings for one checkpoint on a rig: parallel layout, context, cache and batch.

vLLM's defaults are kept wherever they do; what the objective is better served by is tried beside
them. Layouts are compared by what the objective counts.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.flags import accepts_flag
from planner.engine.releases import Release
from planner.engine.served import as_served
from planner.engine_config import EngineConfig
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.layouts import Layout, layouts, replicated
from planner.recommendation.leeway import with_leeway
from planner.recommendation.objectives import for_objective
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.settings import frugal_settings, usual_settings
from planner.recommendation.settled import (
    MOST_AT_ONCE,
    Settled,
    Unfit,
    may_work,
    speed_or_none,
    works,
)

__all__ = ["Settled", "Unfit", "best_result", "settle", "settle_layouts", "speed_or_none"]

# A faster layout must be this much faster to be worth more GPUs.
_WORTH_MORE_GPUS: Final = 1.05
# What replicas that share experts must promise more than one engine: no measurement shows them.
_WORTH_SHARING_EXPERTS: Final = 1.1
# Share of a checkpoint's bytes that is loaded at least: without drafts, and repacked.
_SURELY_LOADED: Final = 0.75
# A server of a smaller batch is for one user: a larger share of the memory comes first.
_FEW: Final = 16
# What is refused less often than this needs no smaller batch.
_COMFORTABLE: Final = 0.01


def settle(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    quantization: str | None = None,
) -> Settled | Unfit:
    """The best working settings of `card` on `rig`, else why there are none.

    `quantization` is what vLLM is to quantize the checkpoint to while it loads it.
    """
    return best_result(settle_layouts(card, rig, requirements, release, quantization), requirements)


def best_result(results: list[Settled | Unfit], requirements: Requirements) -> Settled | Unfit:
    """The best of what layouts come to; where none works, the one that comes closest."""
    settled = [result for result in results if isinstance(result, Settled)]
    if settled:
        return best_of(settled, requirements.aim)
    unfit = [result for result in results if isinstance(result, Unfit)]
    return min(unfit, key=_distance)


def best_of(settled: list[Settled], aim: Objective) -> Settled:
    """The best of several settings of a checkpoint: sure ones first, few GPUs where they do."""
    best = settled[0]
    for result in settled[1:]:
        if (result.sure, _better(result, best, aim)) > (best.sure, False):
            best = result
    return best


def settle_layouts(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    quantization: str | None = None,
    *,
    only_roomy: bool = False,
) -> list[Settled | Unfit]:
    """What each parallel layout comes to, at least one: its best settings, or why there are none.

    See `settle`. `only_roomy`: without layouts that surely lack room for the weights, if others
    have it.
    """
    workload = requirements.workload
    if not card.converses:  # the lengths asked for are those of a conversation
        workload = replace(workload, prompt_tokens=1, output_tokens=1)
        requirements = replace(requirements, workload=workload)
    if workload.total_tokens > requirements.context_for(card):
        reason = (
            f"requests of {workload.prompt_tokens} + {workload.output_tokens} tokens are longer "
            f"than the model's context of {card.max_model_len}"
        )
        return [Unfit(reason, None, 0)]
    found = []
    ways = [*layouts(card, rig), *_replicas(card, rig, requirements, release)]
    if only_roomy:
        ways = _roomy(ways, card, rig, quantization) or ways
    for layout in ways:
        asked = _of_each_replica(requirements, layout)
        result = _settle_layout(card, rig, asked, release, layout, quantization)
        if isinstance(result, Unfit) and _slices_experts(card, layout) and result.is_refused:
            whole = layout._replace(expert=True)  # where slices of experts do not divide
            again = _settle_layout(card, rig, asked, release, whole, quantization)
            layout, result = (whole, again) if isinstance(again, Settled) else (layout, result)
        if isinstance(result, Settled) and result.sure:
            result = for_objective(with_leeway(result, asked), asked)
        if isinstance(result, Settled):
            result = replace(result, speed=speed_or_none(result.memory, requirements))
        else:
            result = replace(result, layout=layout)
        found.append(result)
    return found or [Unfit(f"no parallel layout of {rig.spec} suits this model", None, 0)]


def _roomy(ways: list[Layout], card: ModelCard, rig: Rig, quantization: str | None) -> list[Layout]:
    """Layouts whose GPUs may have room for the weights, known without a plan."""
    memory = rig.smallest.total_bytes
    if memory is None or len(ways) == 1:
        return ways
    least = _SURELY_LOADED * as_served(card, EngineConfig(quantization=quantization)).weight_bytes
    if card.dtype == "float32":  # served in half of that
        least /= 2
    return [layout for layout in ways if least <= memory * layout.gpus]


def _slices_experts(card: ModelCard, layout: Layout) -> bool:
    return card.is_moe and layout.tensor > 1 and not layout.expert


def _replicas(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> list[Layout]:
    """Replicas serve no single request sooner."""
    if rig.gpu_count == 1 or requirements.aim in (Objective.LATENCY, Objective.CONTEXT):
        return []
    needs = ["--data-parallel-size"]
    if card.is_moe:
        needs.append("--enable-expert-parallel")
    if rig.nodes > 1 and not accepts_flag(release, "--nnodes"):
        needs += ["--data-parallel-size-local", "--data-parallel-address", "--headless"]
    if not all(accepts_flag(release, flag) for flag in needs):
        return []
    many = requirements.aim is Objective.THROUGHPUT
    return replicated(card, rig, MOST_AT_ONCE if many else requirements.workload.concurrency)


def _of_each_replica(requirements: Requirements, layout: Layout) -> Requirements:
    """What one of several replicas must do."""
    load = requirements.workload
    each = -(-load.concurrency // layout.data)
    return replace(requirements, workload=replace(load, concurrency=each))


def _settle_layout(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    layout: Layout,
    quantization: str | None,
) -> Settled | Unfit:
    config, reasons = usual_settings(card, rig, requirements, release, layout)
    if quantization is not None:
        config = replace(config, quantization=quantization)
        reasons["quantization"] = "quantizes the 16-bit weights while they are loaded"
    risky: list[tuple[float, MemoryPlan, dict[str, str]]] = []
    try:
        nearest = plan_memory(card, rig, config, vllm=release)
    except Refused as error:
        return Unfit(str(error), None, 0)
    just_works = Settled(nearest, None, reasons) if works(nearest, requirements) else None
    if just_works is not None and nearest.starts.chance_of_refusal <= _COMFORTABLE:
        return just_works
    if nearest.starts.breaks_a_rule or _hopeless(nearest):
        return just_works or _unfit(nearest, requirements)
    if may_work(nearest, requirements):
        risky.append((nearest.starts.chance_of_refusal, nearest, reasons))
    usual = nearest
    few: Settled | None = None  # works, with a batch of hardly more than what was asked for
    for batches in frugal_settings(card, rig, requirements, release, config, reasons):
        working: list[Settled] = []
        for frugal, why in batches:
            if frugal == config:  # tried already
                continue
            if few is not None and frugal.kv_cache_dtype != config.kv_cache_dtype:
                return just_works or few
            if _cannot_fit(usual, frugal):
                break
            try:
                memory = plan_memory(card, rig, frugal, vllm=release)
            except Refused:
                break
            if excess_bytes(memory) < excess_bytes(nearest):
                nearest = memory
            smallest = frugal.max_num_seqs == requirements.workload.concurrency
            if works(memory, requirements):
                working.append(Settled(memory, None, why))
                if not smallest and memory.starts.chance_of_refusal <= _COMFORTABLE:
                    return working[-1]
            elif may_work(memory, requirements):
                risky.append((memory.starts.chance_of_refusal, memory, why))
            if smallest and not works(memory, requirements):
                break
        if working:
            best = max(working, key=_batch)
            if just_works is not None or _batch(best) >= _FEW:
                return just_works or best
            few = few or best
    if just_works is not None:
        return just_works
    if few is not None:
        return few
    if risky:
        _, memory, why = min(risky, key=lambda each: each[0])
        return Settled(memory, None, why)
    return _unfit(nearest, requirements)


def excess_bytes(memory: MemoryPlan) -> float:
    """What is missing on each GPU for one request of full length; negative if it is there."""
    return memory.kv_cache.needed_bytes - memory.tightest.kv_cache.value


def _hopeless(memory: MemoryPlan) -> bool:
    """Whether no smaller batch, larger share or fp8 cache can make up for what is missing."""
    rank = memory.tightest
    gain = (
        rank.activation.value
        + rank.cuda_graphs.value
        + rank.buffers.total
        + 0.05 * memory.device_total.value
        + memory.kv_cache.needed_bytes / 2
    )
    return excess_bytes(memory) > gain


def _batch(settled: Settled) -> int:
    return settled.memory.config.max_num_seqs


def _cannot_fit(usual: MemoryPlan, frugal: EngineConfig) -> bool:
    """Whether frugal settings lack memory even if their batch took none, known without a plan."""
    rank = usual.tightest
    gain = rank.activation.value + rank.cuda_graphs.value + rank.buffers.total
    share = frugal.gpu_memory_utilization
    if share is not None:
        gain += (share - usual.config.gpu_memory_utilization) * usual.device_total.value
    if frugal.kv_cache_dtype != usual.config.given.kv_cache_dtype:
        gain += usual.kv_cache.needed_bytes / 2
    return excess_bytes(usual) > gain


def _unfit(memory: MemoryPlan, requirements: Requirements) -> Unfit:
    if memory.starts.answer is Answer.YES:
        held = memory.expected_requests_at(requirements.workload.total_tokens)
        reason = (
            f"the KV cache holds {held:.1f} requests of {requirements.workload.total_tokens} "
            f"tokens at once, fewer than {requirements.workload.concurrency}"
        )
        return Unfit(reason, memory, max(0.0, excess_bytes(memory)))
    return Unfit(memory.starts.reason, memory, max(0.0, excess_bytes(memory)))


def _distance(result: Unfit) -> tuple[bool, float]:
    """How far from working; what nothing is known of is furthest."""
    return result.nearest is None, result.excess_bytes


def _length(settled: Settled) -> int:
    return settled.memory.config.max_model_len


def _better(result: Settled, other: Settled, aim: Objective) -> bool:
    """Whether settings serve the objective better than others that were tried before."""
    if aim is Objective.CONTEXT and _length(result) != _length(other):
        return _length(result) > _length(other)
    if result.speed is None or other.speed is None:
        return result.gpus < other.gpus
    mine, others = result.seconds_per_answer, other.seconds_per_answer
    if aim is Objective.LATENCY and mine is not None and others is not None:
        ratio = others.value / mine.value
    else:
        ratio = result.speed.total.value / other.speed.total.value
    ratio *= _handicap(other) / _handicap(result)
    return ratio > (_WORTH_MORE_GPUS if result.gpus > other.gpus else 1)


def _handicap(settled: Settled) -> float:
    shares = settled.memory.card.is_moe and settled.layout.data > 1
    return _WORTH_SHARING_EXPERTS if shares else 1.0
