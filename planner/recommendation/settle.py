"""The best settings for one checkpoint on a rig: parallel layout, context, cache and batch.

vLLM's defaults are kept wherever they do; each departure has a reason that is shown with the
command. Layouts are compared by predicted throughput under the workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

from hardware_db import Rig
from model_cards import ModelCard
from model_cards.card import ANY_LENGTH
from planner.engine.attention import attention_backends, backend_problem
from planner.engine.defaults import resolve
from planner.engine.device import Platform, device_facts
from planner.engine.refusal import RefusalKind
from planner.engine.releases import Release
from planner.engine.rules import is_emulated
from planner.engine_config import EngineConfig
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements
from planner.speed.step import MissingFact, SpeedEstimate, predict_speed

# Request limits tried in order, where vLLM's own default leaves too little cache.
_SEQUENCE_LIMITS = (64, 16)
_RAISED_UTILIZATION = 0.95
# A faster layout must be this much faster to be worth more GPUs.
_WORTH_MORE_GPUS = 1.05


@dataclass(frozen=True, slots=True)
class Settled:
    """Settings that work: the plan, its speed, and why each setting is not vLLM's default."""

    memory: MemoryPlan
    speed: SpeedEstimate | None  # None where it cannot be predicted
    reasons: dict[str, str]  # by EngineConfig field

    @property
    def config(self) -> EngineConfig:
        """The settings."""
        return self.memory.config.given


@dataclass(frozen=True, slots=True)
class Unfit:
    """No settings work; `nearest` is the plan that came closest, if one could be made."""

    reason: str
    nearest: MemoryPlan | None
    excess_bytes: float  # too much on each GPU with one request, in that plan; 0 if unknown


def settle(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> Settled | Unfit:
    """The best working settings of `card` on `rig`, else why there are none."""
    workload = requirements.workload
    if workload.total_tokens > requirements.context_for(card):
        return Unfit(
            f"requests of {workload.prompt_tokens} + {workload.output_tokens} tokens are longer "
            f"than the model's context of {card.max_model_len}",
            None,
            0,
        )
    best: Settled | None = None
    unfit: Unfit | None = None
    for tensor, pipeline in layouts(card, rig):
        result = _settle_layout(card, rig, requirements, release, tensor, pipeline)
        if isinstance(result, Unfit):
            if unfit is None or _closer(result, unfit):
                unfit = result
        elif best is None or _better(result, best):
            best = result
    if best is not None:
        return best
    return unfit or Unfit(f"no parallel layout of {rig.spec} suits this model", None, 0)


def layouts(card: ModelCard, rig: Rig) -> list[tuple[int, int]]:
    """(tensor, pipeline) sizes worth trying: tensor parallelism inside a node, pipeline across.

    Tensor sizes divide the attention heads; a single node also gets pipelines of its own, for
    head counts that its number of GPUs does not divide.
    """
    per_node, nodes = len(rig.devices), rig.nodes
    heads = {attention.num_heads for attention in card.attention_layers} or {1}
    tensor_sizes = [
        size
        for size in range(1, per_node + 1)
        if (size & (size - 1) == 0 or size == per_node) and all(h % size == 0 for h in heads)
    ]
    found = [(size, nodes) for size in tensor_sizes]
    if nodes == 1 and max(tensor_sizes) < per_node:
        largest = max(size for size in tensor_sizes if per_node % size == 0)
        found.append((largest, per_node // largest))
    return [pair for pair in found if pair[1] <= card.num_layers]


def _settle_layout(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    tensor: int,
    pipeline: int,
) -> Settled | Unfit:
    config, reasons = _usual(card, rig, requirements, release, tensor, pipeline)
    try:
        nearest = plan_memory(card, rig, config, vllm=release)
        if _works(nearest, requirements):
            return Settled(nearest, speed_or_none(nearest, requirements), reasons)
        if _final(nearest) or _hopeless(nearest):
            return _unfit(nearest, requirements)
        for batches in _frugal(card, rig, requirements, release, config, reasons):
            works: tuple[MemoryPlan, dict[str, str]] | None = None
            for frugal, why in batches:  # the largest batch that works
                memory = plan_memory(card, rig, frugal, vllm=release)
                if not _works(memory, requirements):
                    break
                works = memory, why
            if works is not None:
                memory, why = works
                return Settled(memory, speed_or_none(memory, requirements), why)
            if excess_bytes(memory) < excess_bytes(nearest):
                nearest = memory
    except Refused as error:
        return Unfit(str(error), None, 0)
    return _unfit(nearest, requirements)


def _usual(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    tensor: int,
    pipeline: int,
) -> tuple[EngineConfig, dict[str, str]]:
    """vLLM's defaults for what is asked, and the reasons of the settings."""
    context = requirements.context_for(card)
    reasons = {"max_model_len": _length_reason(card, requirements, context)}
    if tensor > 1:
        reasons["tensor_parallel_size"] = f"splits every layer over {tensor} GPUs"
    if pipeline > 1:
        reasons["pipeline_parallel_size"] = f"splits the layers into {pipeline} stages"
    config = EngineConfig(
        tensor_parallel_size=tensor, pipeline_parallel_size=pipeline, max_model_len=context
    )
    utilization, why = _utilization(rig, release)
    if why is not None:
        reasons["gpu_memory_utilization"] = why
        config = replace(config, gpu_memory_utilization=utilization)
    config, at_once = _for_all_at_once(
        card, rig, config, requirements.workload.concurrency, release
    )
    return config, reasons | at_once


def _frugal(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    config: EngineConfig,
    reasons: dict[str, str],
) -> Iterator[Iterator[tuple[EngineConfig, dict[str, str]]]]:
    """Ever more frugal settings than `config`, each with batches from the smallest up."""
    concurrency = requirements.workload.concurrency
    limits: list[int | None] = [None]
    if config.max_num_seqs is None:
        limits = [*sorted({s for s in (*_SEQUENCE_LIMITS, concurrency) if s >= concurrency}), None]
    default = float(release.fact("gpu_memory_utilization"))
    raised = config.gpu_memory_utilization is None and default < _RAISED_UTILIZATION

    def batches(
        given: EngineConfig, why: dict[str, str]
    ) -> Iterator[tuple[EngineConfig, dict[str, str]]]:
        for limit in limits:
            if limit is None:
                yield given, why
            else:
                smaller = "a smaller batch, so that its buffers leave room"
                yield replace(given, max_num_seqs=limit), {**why, "max_num_seqs": smaller}

    for kv_dtype in ("auto", "fp8"):
        if kv_dtype == "fp8":
            if not _may_use_fp8_kv(card, rig):
                return
            config = replace(config, kv_cache_dtype="fp8")
            reasons = {**reasons, "kv_cache_dtype": "halves the KV cache; 16 bit leaves too little"}
        yield batches(config, reasons)
        if raised:
            yield batches(
                replace(config, gpu_memory_utilization=_RAISED_UTILIZATION),
                {**reasons, "gpu_memory_utilization": "more than the default, to fit"},
            )


def _for_all_at_once(
    card: ModelCard, rig: Rig, config: EngineConfig, concurrency: int, release: Release
) -> tuple[EngineConfig, dict[str, str]]:
    """Room in the batch for every request, where vLLM's default limits have less; with reasons."""
    default = resolve(card, device_facts(rig.smallest.gpu), config, release)
    reasons = {}
    if default.max_num_seqs < concurrency:
        config = replace(config, max_num_seqs=concurrency)
        reasons["max_num_seqs"] = "the requests at a time that were asked for"
        if default.max_num_batched_tokens < concurrency:
            config = replace(config, max_num_batched_tokens=concurrency)
            reasons["max_num_batched_tokens"] = "no less than --max-num-seqs"
    return config, reasons


def _length_reason(card: ModelCard, requirements: Requirements, context: int) -> str:
    if requirements.context is not None:
        return "the context asked for"
    if context == card.max_model_len:
        return "all the model has"
    limit = "no limit" if card.max_model_len == ANY_LENGTH else f"up to {card.max_model_len}"
    return f"enough for {requirements.use_case}; the model has {limit}"


def _utilization(rig: Rig, release: Release) -> tuple[float, str | None]:
    """vLLM's default, or less where other programs hold memory."""
    default = float(release.fact("gpu_memory_utilization"))
    slot = rig.smallest
    if slot.total_bytes is None or (slot.free_bytes is None and not slot.reserve_bytes):
        return default, None
    free = slot.free_bytes if slot.free_bytes is not None else slot.total_bytes
    free -= slot.reserve_bytes
    context_bytes = 0.7 * 2**30  # CUDA context with its band; it comes out of what is free
    share = floor((free - context_bytes) / slot.total_bytes * 100) / 100
    if share >= default or share <= 0:
        return default, None
    return share, "as much as is free"


def _may_use_fp8_kv(card: ModelCard, rig: Rig) -> bool:
    device = device_facts(rig.smallest.gpu)
    if device.platform is not Platform.CUDA or card.kv_cache_dtype is not None:
        return False
    if (device.capability or (0, 0)) < (8, 9):
        return False  # below Ada it is emulated; possible, but never recommended
    backends = attention_backends(card, device, "fp8")
    return backend_problem(card, device, "fp8", backends) is None


def _works(memory: MemoryPlan, requirements: Requirements) -> bool:
    if memory.starts.answer is not Answer.YES:
        return False
    held = memory.requests_at(requirements.workload.total_tokens)
    return held.value >= requirements.workload.concurrency


def excess_bytes(memory: MemoryPlan) -> float:
    """What is missing on each GPU for one request of full length; negative if it is there."""
    return memory.kv_cache.needed_bytes - memory.tightest.kv_cache.value


def _final(memory: MemoryPlan) -> bool:
    """Whether vLLM refuses for a reason that no other try can mend: a rule, too little free."""
    refusal = memory.starts.refusal
    return refusal is not None and refusal.kind is not RefusalKind.KV_ROOM


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


def _unfit(memory: MemoryPlan, requirements: Requirements) -> Unfit:
    if memory.starts.answer is Answer.YES:
        held = memory.requests_at(requirements.workload.total_tokens).value
        reason = (
            f"the KV cache holds {held:.1f} requests of {requirements.workload.total_tokens} "
            f"tokens at once, fewer than {requirements.workload.concurrency}"
        )
        return Unfit(reason, memory, max(0.0, excess_bytes(memory)))
    return Unfit(memory.starts.reason, memory, max(0.0, excess_bytes(memory)))


def _closer(result: Unfit, other: Unfit) -> bool:
    if result.nearest is None or other.nearest is None:
        return other.nearest is None and result.nearest is not None
    return result.excess_bytes < other.excess_bytes


def speed_or_none(memory: MemoryPlan, requirements: Requirements) -> SpeedEstimate | None:
    """Predicted speed, None where the rig lacks a fact for it or vLLM emulates the format."""
    if is_emulated(memory.card, memory.device):
        return None
    try:
        return predict_speed(memory, requirements.workload)
    except MissingFact:
        return None


def _better(result: Settled, other: Settled) -> bool:
    if result.speed is None or other.speed is None:
        return result.config.world_size < other.config.world_size
    ratio = result.speed.total.value / other.speed.total.value
    if result.config.world_size > other.config.world_size:
        return ratio > _WORTH_MORE_GPUS
    return ratio > 1
