"""What would work when a model does not: other checkpoints of it, less context, more GPUs."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Rig
from model_cards import CardError, ModelCard
from model_cards.sources.bundled import open_bundled
from planner.engine.releases import Release
from planner.memory.verdict import Answer
from planner.recommendation.larger import twice
from planner.recommendation.requirements import Requirements
from planner.recommendation.rigs import rigs_for
from planner.recommendation.settle import Settled, Unfit, settle
from planner.recommendation.variants import base_id, checkpoint_ids, hides_its_format

_SHORTEST_CONTEXT = 1024
_MOST_GPUS = 32
_LARGER = 2  # kinds of GPU to name


class Checkpoint(Struct, frozen=True):
    """One checkpoint of the model on the rig: settled, or why not."""

    card: ModelCard
    result: Settled | Unfit
    context: int  # that the result stands for; shorter than asked where only that fits

    @property
    def works(self) -> bool:
        """Whether it is expected to start."""
        return isinstance(self.result, Settled) and self.result.sure


class Alternatives(Struct, frozen=True):
    """Ways out, nearest first."""

    shorter: Checkpoint | None  # the same checkpoint with the longest context that fits
    checkpoints: tuple[Checkpoint, ...]  # other checkpoints of the model, smallest loss first
    more_gpus: tuple[str, Settled] | None  # the same checkpoint on more of the same GPUs
    larger_gpus: tuple[tuple[str, Settled], ...] = ()  # and on as many larger ones, cheapest first
    fewer: tuple[int, Settled] | None = None  # so many requests at a time, the others wait


def find_alternatives(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> Alternatives:
    """What would serve the model, given that `card` cannot be served as asked."""
    others, base = [], base_id(card.model_id)
    for model_id in checkpoint_ids(base):
        if model_id.lower() == card.model_id.lower():
            continue
        try:
            other = open_bundled(model_id)
        except CardError:
            continue
        if other is not None and not hides_its_format(other, base):
            others.append(_with_longest_context(other, rig, requirements, release))
    shorter = _with_longest_context(card, rig, requirements, release)
    return Alternatives(
        shorter if isinstance(shorter.result, Settled) and shorter.result.sure else None,
        tuple(_one_of_each_format(others, requirements)),
        _on_more_gpus(card, rig, requirements, release),
        tuple(_on_larger_gpus(card, rig, requirements, release)),
        _with_fewer_requests(card, rig, requirements, release),
    )


def _with_longest_context(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> Checkpoint:
    """The checkpoint as asked, else with the longest context (halving) that works."""
    context = requirements.context_for(card)
    first = settle(card, rig, requirements, release)
    if isinstance(first, Settled) and first.sure:
        return Checkpoint(card, first, context)
    if isinstance(first, Unfit):
        nearest = first.nearest
        if nearest is None or first.excess_bytes > nearest.kv_cache.needed_bytes:
            return Checkpoint(card, first, context)  # even without a cache it would not fit
    length = context
    while length > _SHORTEST_CONTEXT:
        length = max(_SHORTEST_CONTEXT, length * 3 // 4 // 256 * 256)
        if length < requirements.workload.total_tokens:
            break
        result = settle(card, rig, replace(requirements, context=length), release)
        if isinstance(result, Settled) and result.sure:
            reasons = {**result.reasons, "max_model_len": f"less than {context}, so that it fits"}
            return Checkpoint(card, replace(result, reasons=reasons), length)
    return Checkpoint(card, first, context)


def _with_fewer_requests(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> tuple[int, Settled] | None:
    """As many requests at a time as fit, where it starts and too many were asked for."""
    load = requirements.workload
    first = settle(card, rig, requirements, release)
    nearest = first.nearest if isinstance(first, Unfit) else None
    if nearest is None or nearest.starts.answer is not Answer.YES:
        return None
    replicas = nearest.config.given.data_parallel_size
    at_once = int(nearest.expected_requests_at(load.total_tokens)) * replicas
    if not 0 < at_once < load.concurrency:
        return None
    asked = replace(requirements, workload=replace(load, concurrency=at_once))
    result = settle(card, rig, asked, release)
    return (at_once, result) if isinstance(result, Settled) and result.sure else None


def _one_of_each_format(checkpoints: list[Checkpoint], asked: Requirements) -> list[Checkpoint]:
    """The best of each weight format, smallest loss first.

    Those that serve as asked, then those that work with less context, those that may start, those
    that do not; of equals a modelled one before an estimated one, the larger (closer to the
    original) first.
    """

    def loss(checkpoint: Checkpoint) -> tuple[bool, bool, bool]:
        shorter = checkpoint.context < asked.context_for(checkpoint.card)
        return isinstance(checkpoint.result, Unfit), not checkpoint.works, shorter

    best: dict[str, Checkpoint] = {}
    for checkpoint in sorted(checkpoints, key=lambda c: (*loss(c), not c.card.exact)):
        best.setdefault(checkpoint.card.format_kind, checkpoint)
    return sorted(best.values(), key=lambda c: (*loss(c), -c.card.weight_bytes))


def _on_more_gpus(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> tuple[str, Settled] | None:
    """The smallest rig of the same GPUs, doubled and doubled again, that serves it."""
    larger = twice(rig)
    while larger is not None and larger.gpu_count <= _MOST_GPUS:
        result = settle(card, larger, requirements, release)
        if isinstance(result, Settled) and result.sure:
            return larger.spec, result
        larger = twice(larger)
    return None


def _on_larger_gpus(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release
) -> list[tuple[str, Settled]]:
    """As many GPUs of kinds that have more memory, in one machine."""
    slot = rig.smallest
    if rig.mixed or slot.gpu.vendor in ("custom", "cpu"):
        return []
    counts = (len(rig.devices),)
    choices = rigs_for(card, requirements, release, counts=counts, limit=_LARGER)
    return [(choice.spec, choice.settled) for choice in choices]
