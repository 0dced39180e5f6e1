"""`vplan recommend --model` without a GPU: the rigs that serve a model."""

from __future__ import annotations

from model_cards import ModelCard
from planner.cli.console import fail, print_json, say, show
from planner.cli.format import gib, rate_band, short_count
from planner.cli.status import Status
from planner.engine.releases import Release
from planner.recommendation.requirements import Requirements
from planner.recommendation.rigs import RigChoice, rigs_for


def print_rigs_for(
    card: ModelCard, requirements: Requirements, release: Release, as_json: bool
) -> int:
    """The rigs that serve a model; the exit status."""
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
    _print_table(choices)
    say("\nPrices are dated list prices of single providers; cheapest first, then by memory.")
    return 0


def _print_table(choices: list[RigChoice]) -> None:
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
