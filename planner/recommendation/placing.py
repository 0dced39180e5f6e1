"""Where a model stands in the ranking of a rig, or what keeps it out."""

from __future__ import annotations

from msgspec import Struct

from hardware_db import Rig
from model_cards.errors import UnknownModel
from model_cards.sources.bundled import find_entry, near_misses
from planner.engine.releases import Release
from planner.recommendation.quality import family, rated_models
from planner.recommendation.rank import Choice, Miss, best_checkpoint, leaders, recommend
from planner.recommendation.requirements import Requirements
from planner.recommendation.search import Rejected
from planner.recommendation.variants import base_id


class Placing(Struct, frozen=True):
    """A model's place among all that work, its reason, and what was rejected of it."""

    model_id: str
    choice: Choice | None
    place: int | None
    ranked: int | None  # models that work
    reason: str
    rejected: tuple[Rejected, ...] = ()


def placing(model_id: str, rig: Rig, requirements: Requirements, release: Release) -> Placing:
    """The place of a model, or of the one that a checkpoint is a copy of.

    Raises `UnknownModel` for a name that neither the ratings nor the snapshot has.
    """
    base = base_id(_whole_name(model_id))
    model = rated_models().get(base.lower())
    if model is None:
        entry = find_entry(base)
        if entry is None:
            close = near_misses(model_id)
            hint = f" Close: {', '.join(close)}." if close else ""
            raise UnknownModel(f"Unknown model {model_id}: no rated model of that name.{hint}")
        reason = "it is a draft for other models" if entry.kind == "draft" else "nobody rated it"
        return Placing(base, None, None, None, reason)
    result = best_checkpoint(model, rig, requirements, release)
    if isinstance(result, Miss):
        return Placing(model.model_id, None, None, None, result.reason, result.rejected)
    everything = recommend(rig, requirements, vllm=release, everything=True).choices
    names = [choice.base_id for choice in everything]
    place = names.index(model.model_id)
    choice = everything[place]
    return Placing(
        model.model_id,
        choice,
        place + 1,
        len(everything),
        _standing(choice, leaders(everything, requirements.aim)),
    )


def _whole_name(name: str) -> str:
    """The id of a rated model whose maker was left out, if only one has that name."""
    wanted = name.strip().lower()
    ends = [id_ for id_ in rated_models() if id_.rpartition("/")[2] == wanted]
    return ends[0] if len(ends) == 1 else name.strip()


def _standing(choice: Choice, first: tuple[Choice, ...]) -> str:
    """Its tier and score, and who speaks for its family."""
    quality = choice.quality
    score = f"tier {choice.tier}, quality {quality.score:.1f} ± {quality.error:.1f}"
    seconds = choice.seconds_per_answer
    time = f", {seconds.value:.0f} s for an answer" if seconds is not None else ""
    leader = next(one for one in first if family(one.base_id) == family(choice.base_id))
    if leader.base_id == choice.base_id:
        return f"{score}{time}, the first of its family; served from {choice.model_id}"
    theirs = leader.quality
    return (
        f"{score}{time}; one row a family, and {leader.base_id} ({theirs.score:.1f} ± "
        f"{theirs.error:.1f}) speaks for this one (--all shows every model)"
    )
