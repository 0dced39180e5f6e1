"""The best settings for one checkpoint on a rig: parallel layout, context, cache and batch.

vLLM's defaults are kept wherever they do; what the objective is better served by is tried beside
them. Layouts are compared by what the objective counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.releases import Release
from planner.engine.rules import is_emulated
from planner.engine_config import EngineConfig
from planner.memory.constants import GIB
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.quantity import Quantity
from planner.recommendation.layouts import Layout, layouts, replicated
from planner.recommendation.longest import longest_context
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.settings import (
    frugal_settings,
    roomy_axes,
    small_batch,
    throughput_settings,
    usual_settings,
)
from planner.speed.serving import SpeedEstimate, predict_speed
from planner.speed.step import MissingFact

# A faster layout must be this much faster to be worth more GPUs.
_WORTH_MORE_GPUS: Final = 1.05
# What is refused less often than this needs no smaller batch.
_COMFORTABLE: Final = 0.01
# More requests at a time are beyond what the speed model was checked on.
_MOST_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class Settled:
    """Settings that work, or may: the plan, its speed, and why each is not vLLM's default."""

    memory: MemoryPlan
    speed: SpeedEstimate | None  # None where it cannot be predicted
    reasons: dict[str, str]  # by EngineConfig field

    @property
    def sure(self) -> bool:
        """Whether it is expected to start; else vLLM may refuse."""
        return self.memory.starts.answer is Answer.YES

    @property
    def config(self) -> EngineConfig:
        """The settings."""
        return self.memory.config.given

    @property
    def layout(self) -> Layout:
        """How the GPUs are used."""
        given = self.config
        return Layout(
            given.tensor_parallel_size, given.pipeline_parallel_size, given.data_parallel_size
        )

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.config.world_size * self.config.data_parallel_size

    @property
    def seconds_per_answer(self) -> Quantity | None:
        """Predicted time for one answer, thinking included; None where there is no speed."""
        if self.speed is None:
            return None
        seconds = self.speed.tpot.times(self.speed.workload.output_tokens)
        return seconds + self.speed.ttft if self.speed.ttft is not None else seconds


@dataclass(frozen=True, slots=True)
class Unfit:
    """No settings work; `nearest` is the plan that came closest, if one could be made."""

    reason: str
    nearest: MemoryPlan | None
    excess_bytes: float  # too much on each GPU with one request, in that plan; 0 if unknown

    @property
    def shortage(self) -> str:
        """The reason in one line, with what is needed and what there is where memory is short."""
        nearest = self.nearest
        if nearest is None or nearest.starts.breaks_a_rule or self.excess_bytes <= 0:
            return self.reason
        available = nearest.requested.value
        needed = available + self.excess_bytes
        where = "each GPU" if nearest.config.given.world_size > 1 else "the GPU"
        return (
            f"needs {needed / GIB:.1f} GiB on {where} with one request of "
            f"{nearest.config.max_model_len:,} tokens, {available / GIB:.1f} available"
        )


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
) -> list[Settled | Unfit]:
    """What each parallel layout comes to, at least one: its best settings, or why there are none.

    See `settle`.
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
    for layout in (*layouts(card, rig), *_replicas(card, rig, requirements)):
        asked = _of_each_replica(requirements, layout)
        result = _settle_layout(card, rig, asked, release, layout, quantization)
        if isinstance(result, Settled) and result.sure:
            result = _for_objective(result, asked)
        if isinstance(result, Settled):
            result = replace(result, speed=speed_or_none(result.memory, requirements))
        found.append(result)
    return found or [Unfit(f"no parallel layout of {rig.spec} suits this model", None, 0)]


def _replicas(card: ModelCard, rig: Rig, requirements: Requirements) -> list[Layout]:
    """Replicas serve no single request sooner."""
    if requirements.aim is Objective.THROUGHPUT:
        return replicated(card, rig, _MOST_AT_ONCE)
    if requirements.aim is Objective.BALANCED:
        return replicated(card, rig, requirements.workload.concurrency)
    return []


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
    just_works = Settled(nearest, None, reasons) if _works(nearest, requirements) else None
    if just_works is not None and nearest.starts.chance_of_refusal <= _COMFORTABLE:
        return just_works
    if nearest.starts.breaks_a_rule or _hopeless(nearest):
        return just_works or _unfit(nearest, requirements)
    if _may_work(nearest, requirements):
        risky.append((nearest.starts.chance_of_refusal, nearest, reasons))
    usual = nearest
    for batches in frugal_settings(card, rig, requirements, release, config, reasons):
        works: list[Settled] = []
        for frugal, why in batches:
            if frugal == config:  # tried already
                continue
            if _cannot_fit(usual, frugal):
                break
            try:
                memory = plan_memory(card, rig, frugal, vllm=release)
            except Refused:
                break
            if excess_bytes(memory) < excess_bytes(nearest):
                nearest = memory
            smallest = frugal.max_num_seqs == requirements.workload.concurrency
            if _works(memory, requirements):
                works.append(Settled(memory, None, why))
                if not smallest and memory.starts.chance_of_refusal <= _COMFORTABLE:
                    return works[-1]
            elif _may_work(memory, requirements):
                risky.append((memory.starts.chance_of_refusal, memory, why))
            if smallest and not _works(memory, requirements):
                break
        if works:
            return just_works or max(works, key=_batch)
    if just_works is not None:
        return just_works
    if risky:
        _, memory, why = min(risky, key=lambda each: each[0])
        return Settled(memory, None, why)
    return _unfit(nearest, requirements)


def _for_objective(settled: Settled, requirements: Requirements) -> Settled:
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
                rate = _tokens_per_second(other, requirements)
                if _works(other, requirements) and rate > most * _WORTH_MORE_GPUS:
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
    if chosen.gain.low < 1 or not _works(chosen.memory, requirements):
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


def _length(settled: Settled) -> int:
    return settled.memory.config.max_model_len


def _tokens_per_second(memory: MemoryPlan, requirements: Requirements) -> float:
    speed = speed_or_none(memory, requirements)
    return speed.total.value if speed is not None else 0.0


def _works(memory: MemoryPlan, requirements: Requirements) -> bool:
    return memory.starts.answer is Answer.YES and _holds(memory, requirements)


def _may_work(memory: MemoryPlan, requirements: Requirements) -> bool:
    return memory.starts.answer is Answer.RISKY and _holds(memory, requirements)


def _holds(memory: MemoryPlan, requirements: Requirements) -> bool:
    held = memory.expected_requests_at(requirements.workload.total_tokens)
    return held >= requirements.workload.concurrency


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


def speed_or_none(memory: MemoryPlan, requirements: Requirements) -> SpeedEstimate | None:
    """Predicted speed, None where the rig lacks a fact for it or vLLM emulates the format.

    For throughput under as many requests as the cache holds and each user's pace allows, else under
    those asked for, which replicas share.
    """
    if is_emulated(memory.card, memory.device):
        return None
    load, replicas = requirements.workload, memory.config.given.data_parallel_size
    least = each = -(-load.concurrency // replicas)
    if requirements.aim is Objective.THROUGHPUT:
        held = memory.expected_requests_at(load.total_tokens)
        each = max(least, int(min(held, memory.config.max_num_seqs, _MOST_AT_ONCE)))
    task, pace = _task(memory, requirements), requirements.min_tokens_per_second or 0.0
    try:
        speed = predict_speed(memory, replace(load, concurrency=each), task=task)
        while speed.per_user.value < pace and each > least:  # fewer, so that each is served well
            each = max(least, each // 2)
            speed = predict_speed(memory, replace(load, concurrency=each), task=task)
    except MissingFact:
        return None
    if replicas == 1:
        return speed
    together = replace(load, concurrency=max(load.concurrency, each * replicas))
    return replace(speed, workload=together, total=speed.total.times(replicas))


def _task(memory: MemoryPlan, requirements: Requirements) -> str:
    """What drafts have to guess; "chat" where there are none."""
    if memory.config.speculation is None:
        return "chat"
    from planner.speed.acceptance import task_of  # many rankings need nothing of it

    return task_of(requirements.use_case)


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
    return ratio > (_WORTH_MORE_GPUS if result.gpus > other.gpus else 1)
