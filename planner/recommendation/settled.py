"""Settings of a checkpoint on a rig that work, or why none do; their speed."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.engine.rules import is_emulated
from planner.engine_config import EngineConfig
from planner.memory.constants import GIB
from planner.memory.plan import MemoryPlan
from planner.memory.verdict import Answer
from planner.quantity import Quantity
from planner.recommendation.layouts import Layout
from planner.recommendation.requirements import Objective, Requirements
from planner.speed.serving import SpeedEstimate, predict_speed
from planner.speed.step import MissingFact

# More requests at a time are beyond what the speed model was checked on.
MOST_AT_ONCE: Final = 256


class Settled(Struct, frozen=True, dict=True):
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
            given.tensor_parallel_size,
            given.pipeline_parallel_size,
            given.data_parallel_size,
            given.enable_expert_parallel,
        )

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.layout.gpus

    @property
    def tokens_held(self) -> int:
        """Tokens in the KV caches of all replicas."""
        return self.memory.kv_cache.tokens * self.layout.data

    @property
    def requests_held(self) -> float:
        """Requests of full length that they hold at once."""
        return self.memory.kv_cache.concurrency * self.layout.data

    @cached_property
    def seconds_per_answer(self) -> Quantity | None:
        """Predicted time for one answer, thinking included; None where there is no speed."""
        if self.speed is None:
            return None
        seconds = self.speed.tpot.times(self.speed.workload.output_tokens)
        return seconds + self.speed.ttft if self.speed.ttft is not None else seconds


class Unfit(Struct, frozen=True):
    """No settings work; `nearest` is the plan that came closest, if one could be made."""

    reason: str
    nearest: MemoryPlan | None
    excess_bytes: float  # too much on each GPU with one request, in that plan; 0 if unknown
    layout: Layout | None = None  # None: it is about none

    @property
    def is_refused(self) -> bool:
        """Whether vLLM would not take the layout, however much memory there were."""
        return self.nearest is None or self.nearest.starts.breaks_a_rule

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


def works(memory: MemoryPlan, requirements: Requirements) -> bool:
    """Whether it is expected to start, and holds the requests that were asked for."""
    return memory.starts.answer is Answer.YES and _holds(memory, requirements)


def may_work(memory: MemoryPlan, requirements: Requirements) -> bool:
    """Whether it may start, and then holds them."""
    return memory.starts.answer is Answer.RISKY and _holds(memory, requirements)


def _holds(memory: MemoryPlan, requirements: Requirements) -> bool:
    held = memory.expected_requests_at(requirements.workload.total_tokens)
    return held >= requirements.workload.concurrency


def speed_or_none(memory: MemoryPlan, requirements: Requirements) -> SpeedEstimate | None:
    """Predicted speed, None where the rig lacks a fact for it or vLLM emulates the format.

    For throughput under as many requests as the caches of all replicas hold and each user's pace
    allows, else under those asked for.
    """
    if is_emulated(memory.card, memory.device):
        return None
    load, replicas = requirements.workload, memory.config.given.data_parallel_size
    least = requests = load.concurrency
    if requirements.aim is Objective.THROUGHPUT:
        held = memory.expected_requests_at(load.total_tokens)
        each = int(min(held, memory.config.max_num_seqs, MOST_AT_ONCE))
        requests = max(least, each * replicas)
    task, pace = _task(memory, requirements), requirements.min_tokens_per_second or 0.0
    try:
        speed = predict_speed(memory, replace(load, concurrency=requests), task=task)
        while speed.per_user.value < pace and requests > least:  # fewer, to serve each well
            requests = max(least, requests // 2)
            speed = predict_speed(memory, replace(load, concurrency=requests), task=task)
    except MissingFact:
        return None
    return speed


def _task(memory: MemoryPlan, requirements: Requirements) -> str:
    """What drafts have to guess; "chat" where there are none."""
    if memory.config.speculation is None:
        return "chat"
    from planner.speed.acceptance import task_of  # many rankings need nothing of it

    return task_of(requirements.use_case)
