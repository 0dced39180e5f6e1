"""`vplan recommend`: the best models for a rig, the settings for a model, the rig for a model."""

from __future__ import annotations

from typing import Annotated

import typer

from hardware_db import NoGpuDetected, Rig, find_rig
from model_cards import ModelCard, open_card
from planner.cli.budget import print_budget
from planner.cli.console import fail, print_json, say, say_item, say_verbatim, show
from planner.cli.format import (
    chance,
    gib,
    gib_band,
    rate_band,
    seconds,
    short_band,
    short_count,
    tokens_band,
)
from planner.cli.status import Status
from planner.command.render import render_command
from planner.engine.releases import Release, find_release
from planner.engine.rules import is_emulated
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.recommendation.alternatives import Alternatives, Checkpoint, find_alternatives
from planner.recommendation.rank import Choice, Recommendation
from planner.recommendation.rank import recommend as rank
from planner.recommendation.requirements import Requirements
from planner.recommendation.rigs import RigChoice, rigs_for
from planner.recommendation.settle import Settled, Unfit, settle
from planner.workload import USE_CASES, Workload, use_case_workload


def recommend(
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            "-g",
            help='The hardware: "4090", "2x3090+nvlink", "8xh100-sxm", "2x8xh100-sxm" (nodes x '
            'GPUs), "custom:23.5GiB@1008,bf16=165,cc=8.9", "cpu", or "auto" (detect).',
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A Hub id or a folder; all known models if left out."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", "-c", help="Tokens one request may grow to."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-n", help="Requests at the same time.")
    ] = 1,
    use_case: Annotated[
        str, typer.Option("--use-case", "-u", help=f"One of {', '.join(USE_CASES)}.")
    ] = "chat",
    prompt_tokens: Annotated[
        int | None, typer.Option(help="Prompt length, instead of the use case's.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(help="Answer length, instead of the use case's.")
    ] = None,
    free_memory: Annotated[
        str | None, typer.Option(help='What is free on each GPU, for example "21GiB".')
    ] = None,
    reserve: Annotated[
        str | None, typer.Option(help='What to leave for other programs on each GPU: "1GiB".')
    ] = None,
    vllm_version: Annotated[
        str | None,
        typer.Option(help="The vLLM release; the installed one, else the newest known."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Rows of the ranking.")] = 12,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the Hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Recommend what to run.

    With --gpu: the models worth running on it, ranked, and the command of the best. With --gpu
    and --model: the settings for that model. With --model alone: on this machine's GPUs, or if
    there are none, which GPU it needs.
    """
    release = find_release(vllm_version)
    typical = use_case_workload(use_case, concurrency)
    workload = Workload(
        prompt_tokens if prompt_tokens is not None else typical.prompt_tokens,
        output_tokens if output_tokens is not None else typical.output_tokens,
        concurrency,
    )
    requirements = Requirements(workload, use_case, context)
    rig = _rig(gpu, model, free_memory, reserve)
    card = open_card(model, offline=offline) if model is not None else None
    if card is None:
        assert rig is not None
        return _ranking(rank(rig, requirements, vllm=release, limit=limit), as_json)
    if rig is None:
        return _rigs(card, requirements, release, as_json)
    return _model_on_rig(card, rig, requirements, release, as_json)


def _rig(
    gpu: str | None, model: str | None, free_memory: str | None, reserve: str | None
) -> Rig | None:
    """The rig asked for, else the one of this machine; None to find one for a model."""
    if gpu is not None:
        return find_rig(gpu, free_memory=free_memory, reserve=reserve)
    try:
        return find_rig("auto", free_memory=free_memory, reserve=reserve)
    except NoGpuDetected:
        if model is None:
            raise
        if free_memory is not None or reserve is not None:
            raise PlanError("--free-memory and --reserve are about a GPU: give it, --gpu") from None
        return None


# -- the ranking ----------------------------------------------------------------------------------


def _ranking(recommendation: Recommendation, as_json: bool) -> int:
    if as_json:
        from planner.report import RankingReport

        print_json(RankingReport.of(recommendation))
        return Status.YES if recommendation.choices else Status.NO
    _print_header(recommendation.rig, recommendation.requirements, recommendation.release)
    if not recommendation.choices:
        miss = recommendation.smallest_unfit
        smallest = f"; the smallest, {miss[0]}: {miss[1]}" if miss else ""
        fail(f"No known model fits {recommendation.rig.spec}{smallest}")
        return 1
    _print_choices(recommendation)
    best = recommendation.choices[0]
    say()
    say(f"Best choice: {best.model_id}", style="bold")
    say(_why(best))
    say()
    _print_plan(best.settled)
    return 0


def _print_header(rig: Rig, requirements: Requirements, release: Release) -> None:
    workload = requirements.workload
    say(f"{rig.describe()}; vLLM {release.name}", style="bold")
    at_once = "one request" if workload.concurrency == 1 else f"{workload.concurrency} requests"
    where = " where it can" if requirements.context is None else " tokens"
    say(
        f"{requirements.use_case}: {at_once} at a time, {workload.prompt_tokens} + "
        f"{workload.output_tokens} tokens, context {requirements.wanted_context:,}{where}"
    )
    for note in rig.notes:
        say(f"Note: {note}")
    if release.note:
        say(f"Note: {release.note}")
    missing = rig.missing_facts()
    if missing:
        say(f"Not known of this hardware: {', '.join(missing)}")
    say()


def _print_choices(recommendation: Recommendation) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", justify="right")
    table.add_column("model", max_width=33)
    table.add_column("format")
    table.add_column("quality", justify="right")
    table.add_column("GiB", justify="right")
    table.add_column("KV tok", justify="right")
    table.add_column("tok/s", justify="right")
    tier = 0
    for choice in recommendation.choices:
        memory, speed = choice.settled.memory, choice.settled.speed
        estimated = "" if choice.card.exact else "~"
        table.add_row(
            str(choice.tier) if choice.tier != tier else "",
            choice.model_id,
            choice.card.format_kind,
            f"{choice.quality.score:.1f}±{choice.quality.error:.1f}",
            f"{estimated}{memory.tightest.weights.value / 2**30:.1f}",
            f"{estimated}{short_count(memory.kv_tokens.value)}",
            rate_band(speed.per_user) if speed is not None else "-",
        )
        tier = choice.tier
    show(table)
    say(
        "\nThe first column is the tier: inside one, quality cannot tell models apart, and what "
        "answers sooner (thinking included) comes first, but no model before a clearly better one "
        "of its series. quality ± its standard error (Llama-3.1-8B-Instruct = 40); "
        "GiB and KV tokens on each GPU; tok/s for one user [band]; ~ estimated."
    )


def _why(choice: Choice) -> str:
    quality = choice.quality
    parts = [f"quality {quality.score:.1f} ± {quality.error:.1f} ({quality.evidence})"]
    if choice.seconds_per_answer is not None:
        thinking = ", thinking included" if quality.mode == "thinking" else ""
        parts.append(f"about {seconds(choice.seconds_per_answer.value)} for an answer{thinking}")
    held = choice.settled.memory.requests_at(choice.settled.memory.config.max_model_len).value
    parts.append(
        f"room for {held:.1f} requests of {choice.settled.memory.config.max_model_len:,} tokens"
    )
    return "; ".join(parts)


# -- one plan -------------------------------------------------------------------------------------


def _print_plan(settled: Settled) -> None:
    memory, speed = settled.memory, settled.speed
    print_budget(memory)
    say()
    concurrency = memory.max_concurrency
    cache = (
        f"KV cache: {tokens_band(memory.kv_tokens)} tokens, {concurrency.value:.1f} requests of "
        f"{memory.config.max_model_len:,} tokens at once "
        f"({memory.tightest.kv_cache.basis.label})"
    )
    if not memory.kv_cache.groups:
        cache = "No KV cache: every prompt is read at once"
    risk = chance(memory.starts.chance_of_refusal)
    say(f"{cache}; chance that vLLM refuses to start: {risk}")
    if speed is not None:
        ttft = f", first token after {seconds(speed.ttft.value)}" if speed.ttft else ""
        total = (
            f", {rate_band(speed.total)} tok/s in total" if speed.workload.concurrency > 1 else ""
        )
        say(
            f"Speed: {rate_band(speed.per_user)} tok/s for each user{total}{ttft}; physical "
            f"limit {speed.ceiling_per_user:.0f} tok/s; most of a step is {speed.bound_by} "
            f"({speed.tpot.basis.label})"
        )
        for note in speed.notes:
            say(f"Note: {note}")
    elif is_emulated(memory.card, memory.device):
        say(f"Note: vLLM only emulates {memory.card.format_kind} on this GPU: no speed predicted")
    waiting = speed is not None and memory.max_concurrency.value < speed.workload.concurrency
    if speed is not None and waiting:
        say(
            f"Note: {speed.workload.concurrency} requests of the full "
            f"{memory.config.max_model_len:,} tokens do not fit at once; then some wait"
        )
    for note in memory.notes:
        if note not in memory.rig.notes and note != memory.release.note:  # those are in the header
            say(f"Note: {note}")
    say()
    command = render_command(memory, settled.reasons)
    say_verbatim(command.shell())
    say()
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for flag in command.flags:
        table.add_row(" ".join(flag.words), flag.reason)
    show(table)


def _model_on_rig(
    card: ModelCard, rig: Rig, requirements: Requirements, release: Release, as_json: bool
) -> int:
    result = settle(card, rig, requirements, release)
    alternatives = None
    if isinstance(result, Unfit):
        alternatives = find_alternatives(card, rig, requirements, release)
    if as_json:
        _print_model_json(rig, requirements, release, result, alternatives)
        return _status(result)
    _print_header(rig, requirements, release)
    if isinstance(result, Settled):
        say(f"{card.model_id} ({card.format_kind})", style="bold")
        _print_plan(result)
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
        alternative_reports,
        workload_report,
    )

    unfit = result if isinstance(result, Unfit) else None
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
        _print_plan(works[0].result)


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


# -- which rig ------------------------------------------------------------------------------------


def _rigs(card: ModelCard, requirements: Requirements, release: Release, as_json: bool) -> int:
    choices = rigs_for(card, requirements, release)
    if as_json:
        from planner.report import ModelReport, RigsReport, rig_choice_report, workload_report

        print_json(
            RigsReport(
                vllm=release.name,
                model=ModelReport.of(card),
                workload=workload_report(requirements),
                rigs=[rig_choice_report(choice) for choice in choices],
            )
        )
        return Status.YES if choices else Status.NO
    if not choices:
        fail(f"No rig of up to 8 GPUs in the database serves {card.model_id} as asked")
        return Status.NO
    workload = requirements.workload
    say(f"No GPU found here. Rigs that serve {card.model_id}; vLLM {release.name}", style="bold")
    say(
        f"{workload.concurrency} at a time, {workload.prompt_tokens} + {workload.output_tokens} "
        f"tokens, context {requirements.context_for(card):,}"
    )
    say()
    _print_rigs(choices)
    say("\nPrices are dated list prices of single providers; cheapest first, then by memory.")
    return 0


def _print_rigs(choices: list[RigChoice]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rig")
    table.add_column("$/h", justify="right")
    table.add_column("GiB each", justify="right")
    table.add_column("KV tokens", justify="right")
    table.add_column("tok/s", justify="right")
    for choice in choices:
        memory, speed = choice.settled.memory, choice.settled.speed
        price = choice.usd_per_hour
        table.add_row(
            choice.spec,
            f"{price:.2f}" if price is not None else "-",
            gib(memory.device_total.value),
            short_count(memory.kv_tokens.value),
            rate_band(speed.per_user) if speed is not None else "-",
        )
    show(table)
