"""`vplan recommend --gpu --model`: the settings of one model, or what would work instead."""

from __future__ import annotations

from hardware_db import Rig
from model_cards import ModelCard
from planner.cli.console import fail, print_json, say, say_item
from planner.cli.drawing import Drawing
from planner.cli.format import chance, gib, gib_band, short_band
from planner.cli.plan_text import print_header, print_plan
from planner.cli.reasons import print_reasons
from planner.cli.status import Status
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.recommendation.alternatives import Alternatives, Checkpoint, find_alternatives
from planner.recommendation.requirements import Requirements
from planner.recommendation.search import Search, search
from planner.recommendation.settle import Settled, Unfit
from planner.recommendation.speculation import speculation_or_none
from planner.speed.acceptance import task_of
from planner.speed.capacity import Aims


def print_model_on_rig(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    as_json: bool,
    aims: Aims | None = None,
    drawing: Drawing | None = None,
) -> int:
    """The settings of a model, or what would work instead; the exit status."""
    found = search(card, rig, requirements, release)
    if drawing is not None:
        _draw(drawing, found, aims or Aims())
    alternatives = None
    if isinstance(found.named, Unfit):
        alternatives = find_alternatives(card, rig, requirements, release)
    if as_json:
        from planner.report.model_on_rig import model_on_rig_report

        print_json(model_on_rig_report(found, rig, release, alternatives, aims))
        return _status(found)
    print_header(rig, requirements, release, aims, card)
    if found.pick is not None and _answers(found):
        say(found.pick.name, style="bold")
        settled = found.pick.settled
        task = task_of(requirements.use_case)
        print_plan(settled, speculation_or_none(settled, requirements), aims, task)
        print_reasons(found, rig)
    elif isinstance(found.named, Settled):
        _print_unsure(found, found.named, rig)
    else:
        assert alternatives is not None
        _print_unfit(card, found, found.named, alternatives, rig)
    return _status(found)


def _draw(drawing: Drawing, found: Search, aims: Aims) -> None:
    """Draw the speed of the plan that is the answer."""
    settled = found.pick.settled if found.pick is not None else found.named
    if isinstance(settled, Unfit) or settled.speed is None:
        raise PlanError("--plot: nothing that works has a speed to draw")
    drawing.of(settled.memory, settled.speed.workload, aims)


def _answers(found: Search) -> bool:
    """Whether the pick is an answer to the question: what was named, or the best for a purpose."""
    return found.requirements.objective is not None or found.pick_is_named


def _status(found: Search) -> Status:
    if found.pick is not None and _answers(found):
        return Status.YES
    if isinstance(found.named, Unfit) or found.named.sure:
        return Status.NO
    return Status.RISKY


def _print_unsure(found: Search, named: Settled, rig: Rig) -> None:
    """The checkpoint as it may work, or works too slowly, and what does."""
    card, starts = named.memory.card, named.memory.starts
    say(f"{card.model_id} ({card.format_kind})", style="bold")
    print_plan(named)
    if found.pick is not None:
        say(f"\nThis works: {found.pick.name}, {found.pick.pace:.0f} tok/s")
    if not named.sure:
        risk = chance(starts.chance_of_refusal)
        fail(f"{card.model_id} may not start on {rig.spec} ({risk}): {starts.reason}")
    else:
        reasons = [r.reason for r in found.rejected if r.variant.model_id == card.model_id]
        fail(f"{card.model_id} on {rig.spec}: {reasons[0] if reasons else 'does not do as asked'}")


def _print_unfit(
    card: ModelCard, search_: Search, result: Unfit, alternatives: Alternatives, rig: Rig
) -> None:
    say(f"{card.model_id} ({card.format_kind}) does not fit", style="bold")
    nearest = result.nearest
    if nearest is not None and _is_too_large(nearest):
        rank = nearest.tightest
        say(
            f"Weights alone take {gib_band(rank.weights)} GiB, and vLLM asks for "
            f"{gib(nearest.requested.value)} GiB of each GPU. With activations and the cache of "
            f"one request {gib(result.excess_bytes)} GiB are missing."
        )
    else:
        say(result.reason)
    say("\nWhat would work:")
    found = False
    if alternatives.shorter is not None and isinstance(alternatives.shorter.result, Settled):
        found = True
        say_item(f"the same with --context {alternatives.shorter.context}")
    if alternatives.fewer is not None:
        found = True
        at_once, _ = alternatives.fewer
        say_item(f"the same with --concurrency {at_once}: other requests wait for their turn")
    for checkpoint in alternatives.checkpoints:
        found = found or checkpoint.works
        say_item(_checkpoint_line(checkpoint))
    if alternatives.more_gpus is not None:
        found = True
        say_item(f"--gpu {alternatives.more_gpus[0]} serves it as asked")
    for spec, settled in alternatives.larger_gpus:
        found = True
        speed = settled.speed
        pace = f", {speed.per_user.value:.0f} tok/s for each user" if speed is not None else ""
        say_item(f"--gpu {spec} serves it as asked{pace}")
    if not found:
        say_item("nothing among its known checkpoints, on up to 16 of these GPUs")
    works = [c for c in alternatives.checkpoints if c.works]
    if search_.pick is not None:
        say(f"\n{search_.pick.name} on this hardware:", style="bold")
        print_plan(search_.pick.settled)
        print_reasons(search_, rig)
    elif works and isinstance(works[0].result, Settled):
        say(f"\n{works[0].card.model_id} on this hardware:", style="bold")
        print_plan(works[0].result)
    missing = f"{gib(result.excess_bytes)} GiB are missing on each GPU"
    reason = missing if nearest is not None and _is_too_large(nearest) else result.reason
    fail(f"{card.model_id} does not fit {rig.spec} as asked: {reason}")


def _is_too_large(nearest: MemoryPlan) -> bool:
    """Whether nothing but memory is missing, and not even for a cache is any left."""
    return not nearest.starts.breaks_a_rule and nearest.tightest.kv_cache.value <= 0


def _checkpoint_line(checkpoint: Checkpoint) -> str:
    card, result = checkpoint.card, checkpoint.result
    name = f"{card.model_id} ({card.format_kind}{'' if card.exact else ', estimated'})"
    if isinstance(result, Settled):
        fits = "fits" if checkpoint.works else "may fit"
        tokens = short_band(result.memory.kv_tokens)
        text = f"{name}: {fits} with a context of {checkpoint.context:,}; {tokens} KV tokens"
        risk = result.memory.starts.chance_of_refusal
        return text if checkpoint.works else f"{text}, chance of refusal {chance(risk)}"
    broken = result.nearest is not None and result.nearest.starts.breaks_a_rule
    if result.excess_bytes > 0 and not broken:
        return f"{name}: no, {gib(result.excess_bytes)} GiB are missing on each GPU"
    return f"{name}: no, {result.reason}"
