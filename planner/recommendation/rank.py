"""Which models are worth running on a rig: every rated model, its best checkpoint, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.releases import Release, find_release
from planner.errors import PlanError
from planner.quantity import Quantity
from planner.recommendation.quality import (
    Quality,
    RatedModel,
    family,
    quantized,
    rated_models,
    series,
)
from planner.recommendation.requirements import PLEASANT_PACE, Objective, Requirements
from planner.recommendation.search import (
    Candidate,
    Rejected,
    choose,
    variant_candidates,
    worth_looking_at,
)
from planner.recommendation.settle import Settled
from planner.recommendation.variants import SMALLEST_BYTES, checkpoint_ids, variants

# So many models are looked at however few are shown, so that the order does not depend on that.
_FEWEST: Final = 8
# Share of the joint error of two models of a series that tells them apart.
_SIBLING_ERROR: Final = 0.5
# Joint errors within which models count as equals. Who asks for speed or context gives up some
# quality for it, but not any.
_TIED: Final = {
    Objective.BALANCED: 1.0,
    Objective.QUALITY: 0.0,
    Objective.LATENCY: 2.0,
    Objective.THROUGHPUT: 2.0,
    Objective.CONTEXT: 2.0,
}


class Choice(Struct, frozen=True):
    """One model on the rig: its best checkpoint with the best settings."""

    base_id: str
    candidate: Candidate
    quality: Quality
    released: str
    tier: int  # 1 is best; models of one tier cannot be told apart by quality

    @property
    def card(self) -> ModelCard:
        """The model as it is served."""
        return self.candidate.settled.memory.card

    @property
    def settled(self) -> Settled:
        """Its settings."""
        return self.candidate.settled

    @property
    def seconds_per_answer(self) -> Quantity | None:
        """Predicted time for one answer, thinking counted where the scored mode thinks."""
        return self.settled.seconds_per_answer

    @property
    def model_id(self) -> str:
        """The checkpoint to serve."""
        return self.card.model_id


class Miss(Struct, frozen=True):
    """A rated model that is not in the ranking: why, by checkpoint where any was looked at."""

    model_id: str
    parameters: int
    reason: str
    rejected: tuple[Rejected, ...] = ()


class Recommendation(Struct, frozen=True):
    """Models in order of preference, best first."""

    rig: Rig
    requirements: Requirements
    release: Release
    choices: tuple[Choice, ...]
    smallest_unfit: tuple[str, str] | None  # (smallest model, why not) if nothing fits
    misses: tuple[Miss, ...] = ()  # those that were looked at and do not work, best first


def recommend(
    rig: Rig,
    requirements: Requirements,
    *,
    vllm: str | Release | None = None,
    limit: int = 8,
    everything: bool = False,
    told: Callable[[int, int], None] | None = None,
) -> Recommendation:
    """The best models for `rig`, one of each family, or with `everything` all that work.

    Ordered by quality; where that cannot tell models apart, by what the objective is about
    (balanced: predicted seconds for an answer), then by date. `told` hears before each model how
    many of how many have been looked at, and may raise to end it. Raises `PlanError` if the rig's
    memory is not known.
    """
    if limit < 1:
        raise PlanError(f"limit must be at least 1; {limit} was asked for")
    release = vllm if isinstance(vllm, Release) else find_release(vllm)
    aim = requirements.aim
    found: list[Choice] = []
    misses: list[Miss] = []
    bar = _Bar(aim, {}, None)
    rated = _by_quality(requirements.use_case)
    for at, (model, quality) in enumerate(rated):
        if told is not None:
            told(at, len(rated))
        if not everything and not bar.is_passed(model, quality):
            continue
        choice = best_checkpoint(model, rig, requirements, release)
        if isinstance(choice, Choice):
            found.append(choice)
            if not everything:
                bar = _Bar.of(found, aim, max(limit, _FEWEST))
        else:
            misses.append(choice)
    smallest = min(misses, key=lambda miss: (miss.parameters, miss.model_id), default=None)
    return Recommendation(
        rig,
        requirements,
        release,
        in_tiers(found, aim) if everything else in_tiers(leaders(found, aim), aim)[:limit],
        (smallest.model_id, smallest.reason) if smallest is not None and not found else None,
        tuple(misses),
    )


def leaders(choices: Iterable[Choice], aim: Objective) -> tuple[Choice, ...]:
    """The one of each family to show: of those as good as its best, what the aim prefers."""
    families: dict[str, list[Choice]] = {}
    for choice in choices:
        families.setdefault(family(choice.base_id), []).append(choice)
    first = []
    for members in families.values():
        best = max((choice.quality for choice in members), key=lambda quality: quality.score)
        equals = [c for c in members if not _tells_apart(best, c.quality, aim)]
        first.append(min(equals, key=lambda choice: _preference(choice, aim)))
    return tuple(first)


class _Bar(Struct, frozen=True):
    """What a model, no better than those before it, needs to change the first rows."""

    aim: Objective
    best: dict[str, Quality]  # of each family that has a row
    last: Quality | None  # the best of the last tier that is shown; None while there is room

    @classmethod
    def of(cls, found: list[Choice], aim: Objective, rows: int) -> _Bar:
        best: dict[str, Quality] = {}
        for choice in found:
            name, quality = family(choice.base_id), choice.quality
            if name not in best or quality.score > best[name].score:
                best[name] = quality
        if len(best) < rows:
            return cls(aim, best, None)
        ordered = in_tiers(leaders(found, aim), aim)
        last = [choice.quality for choice in ordered if choice.tier == ordered[rows - 1].tier]
        return cls(aim, best, max(last, key=lambda quality: quality.score))

    def is_passed(self, model: RatedModel, quality: Quality) -> bool:
        """Whether the model may be as good as what is shown."""
        best = self.best.get(family(model.model_id))
        if best is not None:
            return not _tells_apart(best, quality, self.aim)
        return self.last is None or quality.tied_with(self.last, _TIED[self.aim])


def room(rig: Rig) -> int:
    """Bytes of all GPUs together, each counted as the smallest."""
    gpu, memory = rig.smallest.gpu, rig.smallest.total_bytes
    if memory is None:
        raise PlanError(
            f"usable memory of {gpu.name} is not known; give it with the name, "
            f"{gpu.slug}:SIZE, where SIZE is for example 11GiB"
        )
    return memory * rig.gpu_count


def _by_quality(use_case: str) -> list[tuple[RatedModel, Quality]]:
    rated = [(model, model.quality(use_case)) for model in rated_models().values()]
    return sorted(rated, key=lambda each: (-each[1].score, each[0].model_id))


def best_checkpoint(
    model: RatedModel, rig: Rig, requirements: Requirements, release: Release
) -> Choice | Miss:
    """The checkpoint of a model to run on the rig, else why there is none.

    Slower than what was asked for, or than `PLEASANT_PACE`, counts as not working.
    """
    name, parameters = model.model_id, model.total_parameters
    least = parameters * SMALLEST_BYTES
    if least > room(rig):
        reason = (
            f"{parameters / 1e9:.0f}B parameters take {least / 2**30:.0f} GiB at 4 bits, "
            f"{room(rig) / 2**30:.0f} GiB are there"
        )
        return Miss(name, parameters, reason)
    if requirements.min_tokens_per_second is None:
        requirements = replace(requirements, min_tokens_per_second=PLEASANT_PACE)
    quality = model.quality(requirements.use_case)
    aim = requirements.aim
    rejected: list[Rejected] = []
    works: list[Candidate] = []
    licence: str | None = None
    for variant in variants(name, rig, parameters=parameters):
        card = variant.card
        if not requirements.licences.allow(card.license):
            licence = card.license or "not known"
            continue
        if not worth_looking_at(variant.loss, works, aim):
            continue  # a better one works already
        asked = requirements.thinking(card) if quality.mode == "thinking" else requirements
        found = variant_candidates(variant, rig, asked, release)
        if isinstance(found, Rejected):
            rejected.append(found)
        else:
            works.append(found[0])
    best = choose(works, aim)
    if best is not None:
        score = quantized(quality, best.variant.loss)
        return Choice(name, best, score, model.released, 0)
    if licence is not None and not rejected:
        return Miss(name, parameters, f"its licence is {licence}")
    if not rejected:
        known = bool(checkpoint_ids(name))
        reason = "no checkpoint that could fit is bundled" if known else "its config is not bundled"
        return Miss(name, parameters, reason)
    return Miss(name, parameters, rejected[-1].reason, tuple(rejected))


def in_tiers(choices: Iterable[Choice], aim: Objective = Objective.BALANCED) -> tuple[Choice, ...]:
    """Choices by tier: everything tied with the best of what is left; inside, as the aim has it."""
    left = sorted(choices, key=lambda choice: -choice.quality.score)
    ordered: list[Choice] = []
    tier, width = 0, _TIED[aim]
    while left:
        tier += 1
        best = left[0].quality
        tied = [choice for choice in left if choice.quality.tied_with(best, width)]
        left = [choice for choice in left if choice not in tied]
        ordered += [replace(choice, tier=tier) for choice in _preferred_first(tied, aim)]
    return tuple(ordered)


def _preferred_first(tied: list[Choice], aim: Objective) -> list[Choice]:
    """Choices of one tier, but none before a sibling that is clearly better."""
    ordered: list[Choice] = []
    for choice in sorted(tied, key=lambda each: _preference(each, aim)):
        if aim is Objective.BALANCED:
            better = [c for c in tied if c not in ordered and _clearly_better(c, choice)]
            ordered += sorted(better, key=lambda each: _preference(each, aim))
        if choice not in ordered:
            ordered.append(choice)
    return ordered


def _clearly_better(choice: Choice, other: Choice) -> bool:
    """Whether a model of the same series is better."""
    same = series(choice.base_id) == series(other.base_id)
    return same and _tells_apart(choice.quality, other.quality, Objective.BALANCED)


def _tells_apart(better: Quality, worse: Quality, aim: Objective) -> bool:
    """Whether siblings differ in quality: most of their two errors is one and the same."""
    width = _SIBLING_ERROR * _TIED[aim]
    return better.score > worse.score and not better.tied_with(worse, width)


def _preference(choice: Choice, aim: Objective) -> tuple[float, str, str]:
    """Less is better: what the aim counts, then the newer, then the name."""
    settled = choice.settled
    value = float("inf")
    if aim is Objective.CONTEXT:
        value = -float(settled.memory.config.max_model_len)
    elif aim is Objective.THROUGHPUT and settled.speed is not None:
        value = -settled.speed.total.value
    elif choice.seconds_per_answer is not None:
        value = choice.seconds_per_answer.value
    return value, _newest_first(choice.released), choice.model_id


@cache
def _newest_first(released: str) -> str:
    return "".join(chr(255 - ord(letter)) for letter in released)
