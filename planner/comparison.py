"""Two plans side by side: where they differ, and by how much."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from hardware_db import Rig
from model_cards import ModelCard
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.engine.releases import Release
from planner.engine_config import EngineConfig
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.memory.verdict import Answer
from planner.quantity import Basis, Quantity
from planner.recommendation.quality import Quality, quality_of
from planner.recommendation.requirements import Requirements
from planner.recommendation.rigs import hourly_price
from planner.recommendation.settle import Unfit, settle
from planner.speed.serving import SpeedEstimate, predict_speed

_BAND_SIGMAS = 1.645  # nine of ten cases, as every band


class Unit(Enum):
    """What a number counts."""

    BYTES = "bytes"
    TOKENS = "tokens"
    RATE = "tokens per second"
    SECONDS = "seconds"
    TIMES = "times"
    SHARE = "share"
    POINTS = "points"
    DOLLARS = "dollars per hour"


class Side(Struct, frozen=True):
    """One of the two: a plan under a name.

    `memory` is None where vLLM refuses before there is a budget; `problem` says why it does not
    do as asked, and is empty where it does.
    """

    name: str
    card: ModelCard
    rig: Rig
    release: Release
    memory: MemoryPlan | None
    speed: SpeedEstimate | None
    problem: str = ""
    quality: Quality | None = None

    @property
    def starts(self) -> Answer:
        """Whether vLLM starts, and does what was asked."""
        if self.memory is None:
            return Answer.NO
        answer = self.memory.starts.answer
        return Answer.NO if self.problem and answer is Answer.YES else answer


class Row(Struct, frozen=True):
    """A number of both sides; None where a side has none."""

    name: str
    unit: Unit
    one: Quantity | None
    other: Quantity | None

    @property
    def change(self) -> float | None:
        """The other against the one, as a share (0.5: half as much again); None from nothing."""
        if self.one is None or self.other is None or min(self.one.value, self.other.value) <= 0:
            return None
        return self.other.value / self.one.value - 1


class Difference(Struct, frozen=True):
    """A setting that the two launches do not share, as each resolves it."""

    setting: str
    one: str
    other: str


class Comparison(Struct, frozen=True):
    """Two plans, number by number and setting by setting."""

    one: Side
    other: Side
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]


def compare_plans(one: Side, other: Side) -> Comparison:
    """Where two plans differ. Numbers that neither side has are left out."""
    mine, theirs = _numbers(one), _numbers(other)
    rows = [
        Row(name, unit, mine.get((name, unit)), theirs.get((name, unit)))
        for name, unit in dict.fromkeys((*mine, *theirs))
    ]
    return Comparison(one, other, tuple(rows), tuple(_differences(one, other)))


def recommended_side(
    name: str, card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> Side:
    """A model with the settings that would be recommended for it."""
    result = settle(card, rig, requirements, release)
    quality = quality_of(card, requirements.use_case)
    if isinstance(result, Unfit):
        return Side(name, card, rig, release, result.nearest, None, result.shortage, quality)
    problem = "" if result.sure else result.memory.starts.reason
    return Side(name, card, rig, release, result.memory, result.speed, problem, quality)


def command_side(
    name: str, command: str, rig: Rig, requirements: Requirements, release: str | None
) -> Side:
    """A launch as a command asks for it; raises as `read_command` and `check_command` do."""
    result = check_command(read_command([command], release), rig)
    memory = result.memory
    speed = None
    if memory is not None and memory.starts.answer is not Answer.NO:
        try:
            speed = predict_speed(memory, requirements.workload)
        except PlanError:
            speed = None
    errors = [finding.text for finding in result.findings if finding.severity.value == "error"]
    quality = quality_of(result.card, requirements.use_case)
    return Side(
        name,
        result.card,
        rig,
        result.command.release,
        memory,
        speed,
        errors[0] if errors else "",
        quality,
    )


def _numbers(side: Side) -> dict[tuple[str, Unit], Quantity]:
    """The numbers of a plan in the order of a plan."""
    return dict(_listed(side))


def _listed(side: Side) -> Iterator[tuple[tuple[str, Unit], Quantity]]:
    memory, speed, quality = side.memory, side.speed, side.quality
    if quality is not None:
        score, error = quality.score, _BAND_SIGMAS * quality.error
        band = (score - error, score + error)
        points = Quantity(score, *band, Basis.ESTIMATED, quality.evidence)
        yield ("quality", Unit.POINTS), points
    price = hourly_price(side.rig.smallest.gpu)
    if price is not None:
        yield ("price of the rig", Unit.DOLLARS), Quantity.exact(price * side.rig.gpu_count)
    if memory is None:
        return
    rank = memory.tightest
    refusal = memory.starts.chance_of_refusal
    yield ("chance of refusal", Unit.SHARE), Quantity.exact(refusal)
    yield ("memory of a GPU", Unit.BYTES), memory.device_total
    yield ("weights", Unit.BYTES), rank.weights
    yield ("buffers", Unit.BYTES), Quantity.exact(rank.buffers.total)
    yield ("activation peak", Unit.BYTES), rank.activation
    yield ("outside torch", Unit.BYTES), rank.non_torch
    yield ("CUDA graphs", Unit.BYTES), rank.cuda_graphs
    yield ("KV cache", Unit.BYTES), rank.kv_cache
    yield ("not requested", Unit.BYTES), memory.left_over
    if rank.kv_cache.value > 0 and memory.kv_cache.groups:
        replicas = memory.config.given.data_parallel_size  # each has a cache of its own
        yield ("KV tokens", Unit.TOKENS), memory.kv_tokens.times(replicas)
        yield ("requests of full length", Unit.TIMES), memory.max_concurrency.times(replicas)
    if speed is not None:
        yield ("for each user", Unit.RATE), speed.per_user
        yield ("in total", Unit.RATE), speed.total
        if speed.ttft is not None:
            yield ("first token", Unit.SECONDS), speed.ttft


def _differences(one: Side, other: Side) -> Iterator[Difference]:
    """Settings as they are resolved where there is a plan, so that defaults count too."""
    if one.memory is None or other.memory is None:
        return
    mine, theirs = one.memory.config, other.memory.config
    for name in EngineConfig.__struct_fields__:
        pair = []
        for config in (mine, theirs):
            given = getattr(config.given, name)
            resolved = getattr(config, name, given)
            pair.append("-" if resolved is None else str(resolved))
        if pair[0] != pair[1]:
            yield Difference(name, pair[0], pair[1])
