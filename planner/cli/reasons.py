"""Why a pick is the pick, as `vplan recommend` prints it."""

from __future__ import annotations

from hardware_db import Rig
from planner.cli.console import say, say_item, show
from planner.cli.format import rate_band, short_count
from planner.recommendation.explain import difference, explain
from planner.recommendation.search import Candidate, Rejected, Search

_MOST_ROWS = 6


def print_reasons(found: Search, rig: Rig) -> None:
    """What binds, the other ways to serve the model, what was rejected, what a change brings."""
    reasons, pick = explain(found, rig), found.pick
    if reasons is None or pick is None:
        return
    say()
    say(reasons.binding)
    if reasons.replicas:
        head, *layouts = reasons.replicas
        say(head)
        for layout in layouts:
            say_item(layout)
    for finding in reasons.findings:
        say(f"Note: {finding.text}")
    others = [one for one in found.frontier if one is not pick]
    if others:
        say("\nOther ways, none of them better in everything:")
        _print_candidates(pick, others)
    elif found.runner_up is not None:
        runner_up = found.runner_up
        say(f"\nNext best: {runner_up.name}: {difference(runner_up, pick)}")
    if found.rejected:
        say("\nRejected:")
        for rejected in found.rejected:
            say_item(rejected_line(rejected))
    if reasons.changes:
        say("\nWhat a change would bring:")
        for change in reasons.changes:
            same = change.pick.variant.model_id == pick.variant.model_id
            other = "" if same else f"{change.pick.variant.model_id}, "
            say_item(f"{change.what}: {other}{difference(change.pick, pick, change.what)}")


def rejected_line(rejected: Rejected) -> str:
    """A checkpoint with its format, and why it does not do."""
    variant = rejected.variant
    online = " quantized while loading" if variant.quantization else ""
    return f"{variant.model_id} ({variant.weight_format}{online}): {rejected.reason}"


def _print_candidates(pick: Candidate, others: list[Candidate]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("checkpoint", max_width=40)
    table.add_column("format")
    table.add_column("layout")
    table.add_column("loss", justify="right")
    table.add_column("KV tok", justify="right")
    table.add_column("tok/s", justify="right")
    ranked = sorted(others, key=lambda one: (one.variant.loss.points, -one.pace))
    for one in (pick, *ranked[:_MOST_ROWS]):
        settled, variant = one.settled, one.variant
        online = "*" if variant.quantization else ""
        table.add_row(
            variant.model_id,
            f"{variant.weight_format}{online}",
            str(settled.layout),
            f"{variant.loss.points:.1f}",
            short_count(settled.tokens_held),
            rate_band(settled.speed.per_user) if settled.speed is not None else "-",
        )
    show(table)
    if any(one.variant.quantization for one in (pick, *ranked[:_MOST_ROWS])):
        say("* quantized by vLLM while it loads the 16-bit checkpoint")
