"""`vplan recommend --model` without a GPU: the rigs that serve a model."""

from __future__ import annotations

from model_cards import ModelCard
from planner.cli.console import fail, print_json, say, show
from planner.cli.format import gib, rate_band, short_count
from planner.cli.status import Status
from planner.engine.releases import Release
from planner.recommendation.requirements import Requirements
from planner.recommendation.rigs import RigChoice, cheapest_rigs


def print_rigs_for(
    card: ModelCard,
    requirements: Requirements,
    release: Release,
    as_json: bool,
    usd_per_hour: float | None = None,
) -> int:
    """The rigs that serve a model, for no more than a price an hour; the exit status."""
    choices = cheapest_rigs(card, requirements, release, usd_per_hour=usd_per_hour)
    if as_json:
        from planner.report.models import ModelReport
        from planner.report.rigs import RigChoiceReport, RigsReport
        from planner.report.workload import WorkloadReport

        print_json(
            RigsReport(
                vllm=release.name,
                model=ModelReport.of(card),
                workload=WorkloadReport.of(requirements),
                rigs=[RigChoiceReport.of(choice) for choice in choices],
            )
        )
        return Status.YES if choices else Status.NO
    if not choices:
        price = f" for up to {usd_per_hour:g} $/h" if usd_per_hour is not None else ""
        fail(f"No rig of up to 8 GPUs in the database serves {card.model_id} as asked{price}")
        return Status.NO
    workload = requirements.workload
    say(f"No GPU found here. Rigs that serve {card.model_id}; vLLM {release.name}", style="bold")
    say(
        f"{workload.concurrency} at a time, {workload.prompt_tokens} + {workload.output_tokens} "
        f"tokens, context {requirements.context_for(card):,}"
    )
    for model_id in dict.fromkeys(choice.variant.model_id for choice in choices):
        of_one = [choice for choice in choices if choice.variant.model_id == model_id]
        variant = of_one[0].variant
        loss = variant.loss.points
        costs = f"; {loss:.1f} points of quality less" if loss else ""
        say(f"\n{model_id} ({variant.weight_format}{costs})", style="bold")
        _print_table(of_one)
    say(
        "\nfull: requests of the whole context that the cache holds at once; tok/s for one user "
        "[band]. Prices are dated list prices of single providers; cheapest first, then by memory."
    )
    return 0


def _print_table(choices: list[RigChoice]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rig", min_width=22)
    table.add_column("$/h", justify="right", min_width=5)
    table.add_column("GiB each", justify="right", min_width=8)
    table.add_column("KV tokens", justify="right", min_width=9)
    table.add_column("full", justify="right", min_width=5)
    table.add_column("tok/s", justify="right", min_width=12)
    for choice in choices:
        memory, speed = choice.settled.memory, choice.settled.speed
        price = choice.usd_per_hour
        table.add_row(
            choice.spec,
            f"{price:.2f}" if price is not None else "-",
            gib(memory.device_total.value),
            short_count(memory.kv_tokens.value),
            f"{memory.kv_cache.concurrency:.1f}",
            rate_band(speed.per_user) if speed is not None else "-",
        )
    show(table)
