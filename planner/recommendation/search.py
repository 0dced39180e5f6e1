"""Every way to serve a model on a rig: its checkpoints, their layouts, and the one to take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from hardware_db import Rig
from model_cards import ModelCard
from planner.engine.device import computes_in
from planner.engine.releases import Release
from planner.recommendation.quality import Loss
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.settle import Settled, Unfit, best_result, settle_layouts
from planner.recommendation.variants import Variant, base_id, format_place, variants

# Points of quality that an objective gives up for what it is about. The first is less than any
# published comparison can tell; with the others 4 bits are in.
_ALLOWED_LOSS: Final = {
    Objective.BALANCED: 0.3,
    Objective.QUALITY: 0.0,
    Objective.LATENCY: 1.5,
    Objective.THROUGHPUT: 1.5,
    Objective.CONTEXT: 1.5,
}
# Speeds of two formats are less well known than this; what is measured of one GPU differs as much.
_WORTH_A_FORMAT: Final = 1.1


class Candidate(Struct, frozen=True):
    """A checkpoint with a layout and settings that work."""

    variant: Variant
    settled: Settled

    @property
    def name(self) -> str:
        """Checkpoint, format and layout in a few words."""
        online = ", quantized while loading" if self.variant.quantization else ""
        where = f", {self.settled.layout}" if self.settled.gpus > 1 else ""
        return f"{self.variant.model_id} ({self.variant.weight_format}{online}{where})"

    @property
    def pace(self) -> float:
        """Tokens a second for one user; 0 where that cannot be predicted."""
        return self.settled.speed.per_user.value if self.settled.speed is not None else 0.0

    @property
    def merits(self) -> tuple[float, float, float, float]:
        """What more of is better: kept quality, speed, cache, GPUs left over."""
        settled = self.settled
        kept = -round(self.variant.loss.points, 3)
        return kept, self.pace, settled.requests_held, -float(settled.gpus)


class Rejected(Struct, frozen=True):
    """A checkpoint that does not do, and why, with numbers."""

    variant: Variant
    reason: str


class Search(Struct, frozen=True):
    """What was looked at for a model. `pick` is None where nothing is expected to work."""

    requirements: Requirements
    card: ModelCard  # the checkpoint that was asked for
    named: Settled | Unfit  # what it comes to
    candidates: tuple[Candidate, ...]  # of each checkpoint and layout that surely works
    rejected: tuple[Rejected, ...]
    pick: Candidate | None
    unfit: tuple[Unfit, ...] = ()  # layouts of the picked checkpoint that do not do

    @property
    def pick_is_named(self) -> bool:
        """Whether the pick is the checkpoint that was asked for, as it is."""
        return self.pick is not None and self.pick.variant.is_named

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """The Pareto set: those that no other is at least as good as in everything."""
        return tuple(one for one in self.candidates if not _is_beaten(one, self.candidates))

    @property
    def runner_up(self) -> Candidate | None:
        """What would be taken if the pick were not there."""
        left = [one for one in self.candidates if one is not self.pick]
        return _choose(left, self.requirements)


def search(card: ModelCard, rig: Rig, requirements: Requirements, release: Release) -> Search:
    """Every checkpoint of the model that `card` is one of, with every layout of `rig`.

    Without an objective `card` itself is the pick if it works as asked.
    """
    candidates: list[Candidate] = []
    rejected: list[Rejected] = []
    named: Settled | Unfit | None = None
    pick: Candidate | None = None
    unfit: dict[int, tuple[Unfit, ...]] = {}
    for variant in variants(base_id(card.model_id), rig, card):
        results, found = _tried(variant, rig, requirements, release)
        if isinstance(found, Rejected):
            rejected.append(found)
        else:
            candidates += found
            left_out = tuple(each for each in results if isinstance(each, Unfit))
            unfit[id(found[0].variant)] = left_out
        if variant.is_named:
            named = best_result(results, requirements)
            if isinstance(found, list) and requirements.objective is None:
                pick = found[0]
    assert named is not None, "the checkpoint asked for is among the variants"
    pick = pick or _choose(candidates, requirements)
    left = unfit[id(pick.variant)] if pick is not None else ()
    return Search(requirements, card, named, tuple(candidates), tuple(rejected), pick, left)


def variant_candidates(
    variant: Variant, rig: Rig, requirements: Requirements, release: Release
) -> list[Candidate] | Rejected:
    """What works of a checkpoint: one candidate a layout, the best first; else why not."""
    return _tried(variant, rig, requirements, release, only_roomy=True)[1]


def _tried(
    variant: Variant,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    *,
    only_roomy: bool = False,
) -> tuple[list[Settled | Unfit], list[Candidate] | Rejected]:
    """What each layout comes to, and what works; of a smaller checkpoint where only that does."""
    first: tuple[list[Settled | Unfit], list[Candidate] | Rejected] | None = None
    for one in variant.equals:
        results = settle_layouts(
            one.card, rig, requirements, release, one.quantization, only_roomy=only_roomy
        )
        found = _candidates(one, results, requirements)
        if not isinstance(found, Rejected):
            return results, found
        first = first or (results, found)
    assert first is not None
    return first


def _candidates(
    variant: Variant, results: list[Settled | Unfit], requirements: Requirements
) -> list[Candidate] | Rejected:
    best = best_result(results, requirements)
    if isinstance(best, Unfit):
        return Rejected(variant, best.shortage)
    if not best.sure:
        starts = best.memory.starts
        risk = f"chance of refusal {100 * starts.chance_of_refusal:.0f} %"
        return Rejected(variant, f"{starts.reason} ({risk})")
    others = [each for each in results if isinstance(each, Settled) and each.sure]
    found = [Candidate(variant, each) for each in (best, *(o for o in others if o is not best))]
    pace = requirements.min_tokens_per_second or 0.0
    found = [one for one in found if _in_time(one.settled)]
    if not found:
        return Rejected(variant, "slower than the latency targets")
    fast = [one for one in found if one.settled.speed is None or one.pace >= pace]
    if not fast:
        quickest = max(one.pace for one in found)
        return Rejected(variant, f"{quickest:.0f} tokens/s for each user, fewer than {pace:g}")
    return fast


def _in_time(settled: Settled) -> bool:
    """Whether the expected times keep the targets of the load, as far as they are predicted."""
    speed = settled.speed
    if speed is None:
        return True
    load = speed.workload
    pairs = ((speed.ttft, load.ttft_target), (speed.tpot, load.tpot_target))
    return all(time is None or target is None or time.value <= target for time, target in pairs)


def _choose(candidates: Iterable[Candidate], requirements: Requirements) -> Candidate | None:
    """The best for the objective among those that lose no more quality than it allows.

    The first candidate of a checkpoint is its best layout; it wins over the others.
    """
    first: dict[int, Candidate] = {}
    for one in candidates:
        first.setdefault(id(one.variant), one)
    return choose(list(first.values()), requirements.aim)


def choose(candidates: list[Candidate], aim: Objective) -> Candidate | None:
    """The best of candidates, one of each checkpoint; None if there is none.

    Between formats that lose no more than is allowed a small gain decides nothing: it is less than
    speeds are known by. Then it is the one that the GPU computes in, and of those the usual one.
    """
    if not candidates:
        return None
    least = min(one.variant.loss.points for one in candidates)
    allowed = [one for one in candidates if one.variant.loss.points <= least + _ALLOWED_LOSS[aim]]
    best, *others = sorted(allowed, key=_strangeness)
    for one in others:
        if _is_worth_it(one, best, aim):
            best = one
    return best


def _strangeness(one: Candidate) -> tuple[bool, int]:
    """Whether the GPU has no units for the format, and its place among all."""
    kind = one.variant.weight_format
    return not computes_in(kind, one.settled.memory.device), format_place(kind)


def _is_worth_it(one: Candidate, best: Candidate, aim: Objective) -> bool:
    """Whether what one gains over a more usual format is worth mentioning."""
    gain, held = _gain(one, aim), _gain(best, aim)
    if aim is Objective.CONTEXT or float("-inf") in (gain[0], held[0]):
        return gain > held
    ratio = held[0] / gain[0] if gain[0] < 0 else gain[0] / held[0]  # of seconds, else of rates
    return ratio > _WORTH_A_FORMAT


def worth_looking_at(loss: Loss, found: list[Candidate], aim: Objective) -> bool:
    """Whether a checkpoint with such a loss could still be chosen."""
    least = min((one.variant.loss.points for one in found), default=loss.points)
    return loss.points <= least + _ALLOWED_LOSS[aim]


def _gain(one: Candidate, aim: Objective) -> tuple[float, float]:
    """What an objective counts, and what decides between equals."""
    settled = one.settled
    smaller = -float(settled.memory.tightest.weights.value)
    seconds = settled.seconds_per_answer
    if aim is Objective.CONTEXT:
        return float(settled.memory.config.max_model_len), one.pace
    if aim is Objective.LATENCY and seconds is not None:
        return -seconds.value, smaller
    if settled.speed is None:
        return float("-inf"), smaller
    return settled.speed.total.value, smaller


def _is_beaten(one: Candidate, others: Iterable[Candidate]) -> bool:
    mine = one.merits
    return any(
        other.merits != mine
        and all(theirs >= own for theirs, own in zip(other.merits, mine, strict=True))
        for other in others
    )
