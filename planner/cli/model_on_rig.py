"""`vplan recommend --gpu --model`: the settings of one model, or what would work instead."""

from __future__ import annotations

from hardware_db import Rig
from model_cards import ModelCard
from planner.cli.console import fail, print_json, say, say_item
from planner.cli.format import chance, gib, gib_band, short_band
from planner.cli.plan_text import print_header, print_plan
from planner.cli.status import Status
from planner.engine.releases import Release
from planner.memory.plan import MemoryPlan
from planner.recommendation.alternatives import Alternatives, Checkpoint, find_alternatives
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled, Unfit, settle
from planner.recommendation.speculation import speculation_or_none


def print_model_on_rig(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release, as_json: bool
) -> int:
    """The settings of a model, or what would work instead; the exit status."""
    result = settle(card, rig, requirements, release)
    alternatives = None
    if isinstance(result, Unfit):
        alternatives = find_alternatives(card, rig, requirements, release)
    if as_json:
        _print_model_json(rig, requirements, release, result, alternatives)
        return _status(result)
    print_header(rig, requirements, release)
    if isinstance(result, Settled):
        say(f"{card.model_id} ({card.format_kind})", style="bold")
        print_plan(result, speculation_or_none(result, requirements))
        if not result.sure:
            starts = result.memory.starts
            risk = chance(starts.chance_of_refusal)
            fail(f"{card.model_id} may not start on {rig.spec} ({risk}): {starts.reason}")
        return _status(result)
    assert alternatives is not None
    _print_unfit(card, result, alternatives)
    missing = f"{gib(result.excess_bytes)} GiB are missing on each GPU"
    too_large = result.nearest is not None and _is_too_large(result.nearest)
    reason = missing if too_large else result.reason
    fail(f"{card.model_id} does not fit {rig.spec} as asked: {reason}")
    return Status.NO


def _status(result: Settled | Unfit) -> Status:
    if isinstance(result, Unfit):
        return Status.NO
    return Status.YES if result.sure else Status.RISKY


def _print_model_json(
    rig: Rig,
    requirements: Requirements,
    release: Release,
    result: Settled | Unfit,
    alternatives: Alternatives | None,
) -> None:
    from planner.report import (
        ModelOnRigReport,
        PlanReport,
        RigReport,
        SpeculationAdvice,
        alternative_reports,
        workload_report,
    )

    unfit = result if isinstance(result, Unfit) else None
    choice = speculation_or_none(result, requirements) if isinstance(result, Settled) else None
    print_json(
        ModelOnRigReport(
            vllm=release.name,
            rig=RigReport.of(rig),
            workload=workload_report(requirements),
            fits=unfit is None,
            reason=unfit.reason if unfit is not None else None,
            excess_bytes=unfit.excess_bytes if unfit is not None else 0,
            plan=PlanReport.of(result) if isinstance(result, Settled) else None,
            alternatives=alternative_reports(alternatives) if alternatives is not None else [],
            speculation=SpeculationAdvice.of(choice) if choice is not None else None,
        )
    )


def _print_unfit(card: ModelCard, result: Unfit, alternatives: Alternatives) -> None:
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
    for checkpoint in alternatives.checkpoints:
        found = found or isinstance(checkpoint.result, Settled)
        say_item(_checkpoint_line(checkpoint))
    if alternatives.more_gpus is not None:
        found = True
        say_item(f"--gpu {alternatives.more_gpus[0]} serves it as asked")
    if not found:
        say_item("nothing among its known checkpoints, on up to 16 of these GPUs")
    works = [c for c in alternatives.checkpoints if isinstance(c.result, Settled)]
    if works and isinstance(works[0].result, Settled):
        say(f"\n{works[0].card.model_id} on this hardware:", style="bold")
        print_plan(works[0].result)


def _is_too_large(nearest: MemoryPlan) -> bool:
    """Whether nothing but memory is missing, and not even for a cache is any left."""
    return not nearest.starts.breaks_a_rule and nearest.tightest.kv_cache.value <= 0


def _checkpoint_line(checkpoint: Checkpoint) -> str:
    card, result = checkpoint.card, checkpoint.result
    name = f"{card.model_id} ({card.format_kind}{'' if card.exact else ', estimated'})"
    if isinstance(result, Settled):
        sure = "surely fits" if not card.exact else "fits"  # the band leaves little certain
        tokens = short_band(result.memory.kv_tokens)
        return f"{name}: {sure} with a context of {checkpoint.context:,}; {tokens} KV tokens"
    broken = result.nearest is not None and result.nearest.starts.breaks_a_rule
    if result.excess_bytes > 0 and not broken:
        return f"{name}: no, {gib(result.excess_bytes)} GiB are missing on each GPU"
    return f"{name}: no, {result.reason}"
