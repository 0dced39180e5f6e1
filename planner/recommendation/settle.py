"""The best settings for one checkpoint on a rig: parallel layout, context, cache and batch.

vLLM's defaults are kept wherever they do. Layouts are compared by predicted throughput under the
workload.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.releases import Release
from planner.engine.rules import is_emulated
from planner.engine_config import EngineConfig
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements
from planner.recommendation.settings import frugal_settings, usual_settings
from planner.speed.serving import SpeedEstimate, predict_speed
from planner.speed.step import MissingFact

# A faster layout must be this much faster to be worth more GPUs.
_WORTH_MORE_GPUS = 1.05


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
    if not card.converses:  # the lengths asked for are those of a conversation
        workload = replace(workload, prompt_tokens=1, output_tokens=1)
        requirements = replace(requirements, workload=workload)
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
        elif best is None or (result.sure, _better(result, best)) > (best.sure, False):
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
    config, reasons = usual_settings(card, rig, requirements, release, tensor, pipeline)
    risky: list[tuple[float, MemoryPlan, dict[str, str]]] = []
    try:
        nearest = plan_memory(card, rig, config, vllm=release)
    except Refused as error:
        return Unfit(str(error), None, 0)
    if _works(nearest, requirements):
        return _settled(nearest, requirements, reasons)
    if nearest.starts.breaks_a_rule or _hopeless(nearest):
        return _unfit(nearest, requirements)
    if _may_work(nearest, requirements):
        risky.append((nearest.starts.chance_of_refusal, nearest, reasons))
    for batches in frugal_settings(card, rig, requirements, release, config, reasons):
        smallest: tuple[MemoryPlan, dict[str, str]] | None = None
        for frugal, why in batches:
            if frugal == config:  # tried already
                continue
            try:
                memory = plan_memory(card, rig, frugal, vllm=release)
            except Refused:
                break
            if _works(memory, requirements):
                if smallest is not None:
                    return _settled(memory, requirements, why)
                smallest = memory, why
            elif smallest is None:
                if _may_work(memory, requirements):
                    risky.append((memory.starts.chance_of_refusal, memory, why))
                if excess_bytes(memory) < excess_bytes(nearest):
                    nearest = memory
                break
        if smallest is not None:
            return _settled(smallest[0], requirements, smallest[1])
    if risky:
        _, memory, why = min(risky, key=lambda each: each[0])
        return _settled(memory, requirements, why)
    return _unfit(nearest, requirements)


def _settled(memory: MemoryPlan, requirements: Requirements, reasons: dict[str, str]) -> Settled:
    return Settled(memory, speed_or_none(memory, requirements), reasons)


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


def _unfit(memory: MemoryPlan, requirements: Requirements) -> Unfit:
    if memory.starts.answer is Answer.YES:
        held = memory.expected_requests_at(requirements.workload.total_tokens)
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
