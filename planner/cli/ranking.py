"""`vplan recommend --gpu`: the ranking of models, and the plan of the best."""

from __future__ import annotations

from planner.cli.console import fail, print_json, say, show
from planner.cli.format import rate_band, seconds, short_count
from planner.cli.plan_text import print_header, print_plan
from planner.cli.status import Status
from planner.recommendation.rank import Choice, Recommendation
from planner.recommendation.requirements import Objective


def print_ranking(recommendation: Recommendation, as_json: bool) -> int:
    """The ranking and the best plan; the exit status."""
    if as_json:
        from planner.report.ranking import RankingReport

        print_json(RankingReport.of(recommendation))
        return Status.YES if recommendation.choices else Status.NO
    print_header(recommendation.rig, recommendation.requirements, recommendation.release)
    if not recommendation.choices:
        miss = recommendation.smallest_unfit
        smallest = f"; the smallest, {miss[0]}: {miss[1]}" if miss else ""
        fail(f"No known model does as asked on {recommendation.rig.spec}{smallest}")
        return 1
    _print_choices(recommendation)
    best = recommendation.choices[0]
    say()
    say(f"Best choice: {best.model_id}", style="bold")
    say(_why(best))
    say()
    print_plan(best.settled)
    say(
        f"\nWhether drafting pays: vplan speculate --gpu {recommendation.rig.spec} "
        f"--model {best.model_id}"
    )
    return 0


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
    aim = recommendation.requirements.aim
    counted = {Objective.THROUGHPUT: "total", Objective.CONTEXT: "context"}.get(aim)
    if counted is not None:
        table.add_column(counted, justify="right")
    tier = 0
    for choice in recommendation.choices:
        memory, speed = choice.settled.memory, choice.settled.speed
        estimated = "" if choice.card.exact else "~"
        table.add_row(
            str(choice.tier) if choice.tier != tier else "",
            choice.model_id,
            choice.card.format_kind + ("*" if choice.candidate.variant.quantization else ""),
            f"{choice.quality.score:.1f}±{choice.quality.error:.1f}",
            f"{estimated}{memory.tightest.weights.value / 2**30:.1f}",
            f"{estimated}{short_count(memory.kv_tokens.value)}",
            rate_band(speed.per_user) if speed is not None else "-",
            *([_counted(choice, aim)] if counted is not None else []),
        )
        tier = choice.tier
    show(table)
    say(
        "\nThe first column is the tier: inside one, quality cannot tell models apart, and what "
        "answers sooner (thinking included) comes first, but no model before a clearly better one "
        "of its series. quality ± its standard error (Llama-3.1-8B-Instruct = 40); "
        "GiB and KV tokens on each GPU; tok/s for one user [band]; ~ estimated."
    )


def _counted(choice: Choice, aim: Objective) -> str:
    """What the objective counts of a choice."""
    if aim is Objective.CONTEXT:
        return short_count(choice.settled.memory.config.max_model_len)
    speed = choice.settled.speed
    return f"{speed.total.value:,.0f}" if speed is not None else "-"


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
