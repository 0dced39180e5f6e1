"""The terms of a plan, each beside what was measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from math import sqrt
from typing import Final

from msgspec import Struct

from planner.engine.device import Platform
from planner.launch.facts import LaunchFacts, RankFacts
from planner.launch.probe import Probe
from planner.memory.plan import MemoryPlan, RankMemory
from planner.quantity import Basis, Quantity
from planner.speed.serving import predict_speed
from planner.speed.step import MissingFact

_HALF_A_DIGIT: Final = 0.005 * 2**30  # sizes are printed in hundredths of a GiB
_HALF_A_HUNDREDTH: Final = 0.005
_FLOAT: Final = 1e-9
_SIGMAS: Final = 4.0  # what chance alone exceeds once in 16,000 runs


_OUTSIDE_TORCH: Final = "outside torch"
_OUTSIDE_MODEL: Final = "outside the model"
_PROCESS: Final = "weights and the process"
_KV_CACHE: Final = "KV cache"
_Part = tuple[str, Callable[[RankMemory], Quantity], Callable[[RankFacts], int | None]]


class Unit(Enum):
    """What a term is counted in."""

    BYTES = "bytes"
    COUNT = "count"
    RATIO = "ratio"
    SECONDS = "seconds"


class Term(Struct, frozen=True):
    """A planned quantity and what it came to; `rounding` is how far the measurement may be off."""

    name: str
    unit: Unit
    plan: Quantity
    measured: float
    rounding: float = 0.0

    @property
    def difference(self) -> float:
        """Measured less planned."""
        return self.measured - self.plan.value

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the band of the plan."""
        return self.plan.low - self.rounding <= self.measured <= self.plan.high + self.rounding


def compare(
    memory: MemoryPlan,
    facts: LaunchFacts,
    probe: Probe,
    synthetic: tuple[float, ...] | None = None,
) -> tuple[Term, ...]:
    """Every term that was measured; drafts are accepted at `synthetic` rates, if there are any."""
    return (
        *_sizes(memory, facts),
        *_cache(memory, facts, probe),
        *_settings(memory, probe),
        *_acceptance(synthetic, probe),
        *_speed(memory, probe),
    )


def _sizes(memory: MemoryPlan, facts: LaunchFacts) -> Iterator[Term]:
    """What the log says of the memory of the ranks, the largest of each."""
    for name, plan, part in _parts(memory):
        measured = facts.largest(part)
        if measured is not None:
            most = max((plan(rank) for rank in memory.ranks), key=lambda each: each.value)
            yield Term(name, Unit.BYTES, most, measured, _HALF_A_DIGIT)
    if facts.kv_cache is not None:
        planned = memory.tightest.kv_cache
        yield Term(_KV_CACHE, Unit.BYTES, planned, facts.kv_cache, _HALF_A_DIGIT)


def unseen(memory: MemoryPlan, facts: LaunchFacts) -> tuple[str, ...]:
    """The parts of the memory that a log might have told, and did not."""
    parts = _parts(memory)
    told = {name for name, _, part in parts if facts.largest(part) is not None}
    if _OUTSIDE_MODEL in told:  # the one where a release does not say the other
        told.add(_OUTSIDE_TORCH)
    if memory.device.platform is Platform.CPU:
        expected = [_PROCESS]
    else:
        planned = [
            name for name, plan, _ in parts if any(plan(rank).value for rank in memory.ranks)
        ]
        expected = [name for name in planned if name != _OUTSIDE_MODEL]
    if facts.kv_cache is None:
        expected.append(_KV_CACHE)
    return tuple(name for name in expected if name not in told)


def _parts(memory: MemoryPlan) -> tuple[_Part, ...]:
    """Name, plan and measurement of each."""
    weights: _Part = ("weights", _weights, lambda told: told.weights)
    if memory.device.platform is Platform.CPU:
        return weights, (_PROCESS, _consumed, lambda told: told.consumed)
    return (
        weights,
        ("activation peak", lambda rank: rank.activation, lambda told: told.activation),
        (_OUTSIDE_TORCH, lambda rank: rank.non_torch, lambda told: told.non_torch),
        (_OUTSIDE_MODEL, _outside_model, _consumed_without_weights),
        ("CUDA graphs", lambda rank: rank.cuda_graphs, lambda told: told.graphs_estimated),
    )


def _weights(rank: RankMemory) -> Quantity:
    """As "Model loading took" counts them: with the model's own buffers."""
    return rank.weights + Quantity.exact(rank.buffers.model)


def _outside_model(rank: RankMemory) -> Quantity:
    """Buffers of the model runner, and what is outside torch."""
    return rank.non_torch + Quantity.exact(rank.buffers.total - rank.buffers.model)


def _consumed(rank: RankMemory) -> Quantity:
    return _weights(rank) + _outside_model(rank)


def _consumed_without_weights(rank: RankFacts) -> int | None:
    if rank.consumed is None or rank.weights is None:
        return None
    return rank.consumed - rank.weights


def _cache(memory: MemoryPlan, facts: LaunchFacts, probe: Probe) -> Iterator[Term]:
    """What the server says of its KV cache; the log where a release's /metrics does not."""
    kv, low, high = memory.kv_cache, memory.kv_cache_low, memory.kv_cache_high
    basis = memory.tightest.kv_cache.basis
    if not kv.groups:
        return
    cache = probe.cache
    blocks = cache.num_blocks if cache is not None else facts.blocks
    if blocks is not None:
        plan = Quantity(kv.num_blocks, low.num_blocks, high.num_blocks, basis)
        yield Term("KV blocks", Unit.COUNT, plan, blocks)
    if cache is not None and cache.block_size is not None:
        yield Term("block size", Unit.COUNT, Quantity.exact(memory.block_size), cache.block_size)
    tokens = cache.tokens if cache is not None and cache.tokens is not None else facts.kv_tokens
    if tokens is not None:
        yield Term("KV tokens", Unit.COUNT, memory.kv_tokens, tokens)
    if cache is not None and cache.max_concurrency is not None:
        slack = _FLOAT * cache.max_concurrency
        yield Term("concurrency", Unit.RATIO, memory.max_concurrency, cache.max_concurrency, slack)
    elif facts.max_concurrency is not None:
        plan = memory.max_concurrency
        yield Term("concurrency", Unit.RATIO, plan, facts.max_concurrency, _HALF_A_HUNDREDTH)
    if probe.max_model_len is not None:
        lengths = (low.max_model_len, high.max_model_len)
        basis = Basis.EXACT if len({*lengths, kv.max_model_len}) == 1 else basis
        plan = Quantity(kv.max_model_len, min(lengths), max(lengths), basis)
        yield Term("context length", Unit.COUNT, plan, probe.max_model_len)


def _settings(memory: MemoryPlan, probe: Probe) -> Iterator[Term]:
    """What vLLM chose where nothing was given, if the server tells."""
    told = probe.settings or {}
    scheduler = told.get("scheduler_config")
    if not isinstance(scheduler, dict):
        return
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        found = scheduler.get(name)
        if isinstance(found, int):
            plan = Quantity.exact(getattr(memory.config, name))
            yield Term(name, Unit.COUNT, plan, found)


def _acceptance(rates: tuple[float, ...] | None, probe: Probe) -> Iterator[Term]:
    """Whether what is accepted came out at the rates that were set, as far as chance allows."""
    told = probe.speculation
    if rates is None or told is None or told.acceptance_length is None:
        return
    mean = sum(rates)
    square = sum((2 * at + 1) * rate for at, rate in enumerate(rates))
    chance = _SIGMAS * sqrt(max(0.0, square - mean**2) / told.drafts)
    plan = Quantity(1 + mean, 1 + mean - chance, 1 + mean + chance, Basis.ESTIMATED)
    yield Term("acceptance length", Unit.RATIO, plan, told.acceptance_length, _HALF_A_HUNDREDTH)


def _speed(memory: MemoryPlan, probe: Probe) -> Iterator[Term]:
    """Times at each level of the load; those of CPUs are not modelled."""
    if memory.device.platform is Platform.CPU:
        return
    for result in probe.levels:
        level = result.level
        try:
            speed = predict_speed(memory, level.workload)
        except MissingFact:
            return
        at_once = f" ({level.concurrency} at once)" if level.concurrency > 1 else ""
        if result.median_tpot is not None:
            name = f"time per token{at_once}"
            yield Term(name, Unit.SECONDS, speed.tpot, result.median_tpot)
        if speed.ttft is not None and level.concurrency == 1:
            yield Term("time to first token", Unit.SECONDS, speed.ttft, result.median_ttft)
