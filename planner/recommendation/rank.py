"""Which models are worth running on a rig: every rated model, its best checkpoint, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import hypot
from typing import Final

from hardware_db import Rig
from model_cards import CardError, ModelCard
from model_cards.sources.bundled import open_bundled
from planner.engine.device import device_facts
from planner.engine.releases import Release, find_release
from planner.engine.rules import is_emulated
from planner.errors import PlanError
from planner.quantity import Quantity
from planner.recommendation.quality import Quality, RatedModel, quantized, rated_models, series
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled, settle
from planner.recommendation.variants import (
    SMALLEST_BYTES,
    checkpoint_ids,
    least_bytes,
    usual_format,
)

# A checkpoint that loses no more than this many points is as good as the original.
_AS_GOOD_POINTS: Final = 0.3
# So many models are looked at however few are shown, so that the order does not depend on that.
_FEWEST: Final = 12
# Share of the joint error of two models of a series that tells them apart.
_SIBLING_ERROR: Final = 0.5
# Slower than people read, a model of a series does not stand before its smaller siblings.
_READING_PACE: Final = 10.0  # tokens/s


@dataclass(frozen=True, slots=True)
class Choice:
    """One model on the rig: its best checkpoint with the best settings."""

    base_id: str
    card: ModelCard
    quality: Quality
    released: str
    settled: Settled
    seconds_per_answer: Quantity | None  # thinking counted where the scored mode thinks
    tier: int  # 1 is best; models of one tier cannot be told apart by quality

    @property
    def model_id(self) -> str:
        """The checkpoint to serve."""
        return self.card.model_id


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Models in order of preference, best first."""

    rig: Rig
    requirements: Requirements
    release: Release
    choices: tuple[Choice, ...]
    smallest_unfit: tuple[str, str] | None  # (smallest model, why not) if nothing fits


def recommend(
    rig: Rig,
    requirements: Requirements,
    *,
    vllm: str | Release | None = None,
    limit: int = 12,
) -> Recommendation:
    """The best models for `rig`.

    Ordered by quality; where that cannot tell models apart, by predicted seconds for an answer,
    then by date. Raises `PlanError` if the rig's memory is not known.
    """
    if limit < 1:
        raise PlanError(f"limit must be at least 1; {limit} was asked for")
    release = vllm if isinstance(vllm, Release) else find_release(vllm)
    room = _room(rig)
    found: list[Choice] = []
    misses: list[tuple[int, str, str]] = []
    for model in _by_quality(requirements.use_case):
        if len(found) >= max(limit, _FEWEST) and not _rivals(model, found, requirements):
            break
        if model.total_parameters * SMALLEST_BYTES > room:
            continue
        choice = best_checkpoint(model, rig, requirements, release)
        if isinstance(choice, Choice):
            found.append(choice)
        elif choice is not None:
            misses.append((model.total_parameters, model.model_id, choice))
    smallest = min(misses)[1:] if misses and not found else None
    return Recommendation(rig, requirements, release, in_tiers(found)[:limit], smallest)


def _rivals(model: RatedModel, found: list[Choice], requirements: Requirements) -> bool:
    """Whether a model may be as good as the best found, so that speed would decide."""
    best = max((choice.quality for choice in found), key=lambda quality: quality.score)
    return model.quality(requirements.use_case).tied_with(best)


def _room(rig: Rig) -> int:
    """Bytes of all GPUs together, each counted as the smallest."""
    gpu, memory = rig.smallest.gpu, rig.smallest.total_bytes
    if memory is None:
        raise PlanError(
            f"usable memory of {gpu.name} is not known; give it with the name, "
            f"{gpu.slug}:SIZE, where SIZE is for example 11GiB"
        )
    return memory * rig.gpu_count


def _by_quality(use_case: str) -> list[RatedModel]:
    def key(model: RatedModel) -> tuple[float, str]:
        return -model.quality(use_case).score, model.model_id

    return sorted(rated_models().values(), key=key)


def best_checkpoint(
    model: RatedModel, rig: Rig, requirements: Requirements, release: Release
) -> Choice | str | None:
    """The checkpoint of a model to run on the rig.

    Of those that work, the best; one that loses next to nothing by quantization wins if it is
    faster. A reason if none works, None if none is known.
    """
    reason: str | None = None
    works: list[Choice] = []
    for card in _cards(model, _room(rig)):
        if is_emulated(card, device_facts(rig.smallest.gpu)):
            reason = f"vLLM only emulates {card.format_kind} on this GPU"
            continue
        quality = quantized(
            model.quality(requirements.use_case), card.format_kind, model.total_parameters
        )
        if works and quality.score < max(c.quality.score for c in works) - _AS_GOOD_POINTS:
            continue  # a better one works already
        thinks = quality.mode == "thinking"
        asked = requirements.thinking(card) if thinks else requirements
        settled = settle(card, rig, asked, release)
        if not isinstance(settled, Settled):
            reason = settled.reason
            continue
        if not settled.sure:
            reason = settled.memory.starts.reason
            continue
        answer = _seconds(settled)
        works.append(Choice(model.model_id, card, quality, model.released, settled, answer, 0))
    if not works:
        return reason
    best = max(choice.quality.score for choice in works)
    as_good = [c for c in works if c.quality.score >= best - _AS_GOOD_POINTS]
    return max(as_good, key=_throughput)


def _cards(model: RatedModel, room: int) -> list[ModelCard]:
    """Cards of a model's checkpoints, one of each format: modelled before estimated ones.

    Without those whose weights alone take more than `room`.
    """
    by_kind: dict[str, ModelCard] = {}
    for model_id in checkpoint_ids(model.model_id):
        if model.total_parameters * least_bytes(model_id) > room:
            continue
        if usual_format(model_id) in by_kind:  # no better than what is held
            continue
        try:
            card = open_bundled(model_id)
        except CardError:
            continue
        if card is None:
            continue
        held = by_kind.get(card.format_kind)
        if held is None or (card.exact and not held.exact):
            by_kind[card.format_kind] = card
    order = ("16bit", "fp8", "w8a8", "int8", "mxfp4", "nvfp4", "int4")
    return sorted(by_kind.values(), key=lambda card: order.index(card.format_kind))


def _throughput(choice: Choice) -> float:
    speed = choice.settled.speed
    return speed.total.value if speed is not None else -choice.card.weight_bytes


def _seconds(settled: Settled) -> Quantity | None:
    """Predicted time for one answer, thinking included."""
    speed = settled.speed
    if speed is None:
        return None
    seconds = speed.tpot.times(speed.workload.output_tokens)
    return seconds + speed.ttft if speed.ttft is not None else seconds


def in_tiers(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """Choices by tier: everything tied with the best of what is left; inside, fastest first."""
    left = sorted(choices, key=lambda choice: -choice.quality.score)
    ordered: list[Choice] = []
    tier = 0
    while left:
        tier += 1
        best = left[0].quality
        tied = [choice for choice in left if choice.quality.tied_with(best)]
        left = [choice for choice in left if not choice.quality.tied_with(best)]
        ordered += [replace(choice, tier=tier) for choice in _fastest_first(tied)]
    return tuple(ordered)


def _fastest_first(tied: list[Choice]) -> list[Choice]:
    """Choices of one tier, the fastest first, but none before a sibling that is clearly better."""
    ordered: list[Choice] = []
    for choice in sorted(tied, key=_preference):
        better = [c for c in tied if c not in ordered and _clearly_better(c, choice)]
        ordered += sorted(better, key=_preference)
        if choice not in ordered:
            ordered.append(choice)
    return ordered


def _clearly_better(choice: Choice, other: Choice) -> bool:
    """Whether a model of the same series is better: most of the two errors is one and the same."""
    if series(choice.base_id) != series(other.base_id):
        return False
    joint = hypot(choice.quality.error, other.quality.error)
    speed = choice.settled.speed
    usable = speed is None or speed.per_user.value >= _READING_PACE
    return usable and choice.quality.score - other.quality.score > _SIBLING_ERROR * joint


def _preference(choice: Choice) -> tuple[float, str, str]:
    seconds = choice.seconds_per_answer
    newest_first = "".join(chr(255 - ord(letter)) for letter in choice.released)
    value = seconds.value if seconds is not None else float("inf")
    return value, newest_first, choice.model_id
