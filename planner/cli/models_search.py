"""`vplan models search`: models by a part of their name, of the snapshot and of the Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from model_cards.errors import CardError
from model_cards.sources.hub_cache import is_offline
from model_cards.sources.search import Found, search_bundled, search_hub
from planner.cli.console import fail, print_json, say, show
from planner.cli.format import short_count
from planner.cli.options import AsJson, Offline
from planner.cli.status import Status
from planner.errors import PlanError


def search(
    text: Annotated[str, typer.Argument(help='Words of its name: "qwen3 awq".')],
    limit: Annotated[int, typer.Option(help="How many to show of each source.")] = 20,
    offline: Offline = False,
    as_json: AsJson = False,
) -> int:
    """Find models, among the bundled ones and on the Hub.

    Exit status 1: nothing was found.
    """
    if not text.strip():
        raise PlanError("give words of the name to search for")
    if not 1 <= limit <= 1000:
        raise PlanError(f"--limit must lie between 1 and 1000; {limit} was asked for")
    bundled = search_bundled(text)
    online: list[Found] = []
    problem = "offline" if offline or is_offline() else None
    if problem is None:
        try:
            online = search_hub(text, limit)
        except CardError as error:
            problem = str(error)
    seen = {found.id.lower() for found in online}
    others = [each for each in bundled if each.id.lower() not in seen]
    found = [*online, *others[:limit]]
    if as_json:
        from planner.report.models import FoundReport, SearchReport

        models = [FoundReport.like(each) for each in found]
        print_json(SearchReport(models=models, problem=problem))
    elif found:
        _print(found)
        if len(others) > limit:
            say(f"\n{len(others) - limit} more bundled models match; --limit shows them.")
        if problem is not None:
            say(f"\nThe Hub was not searched: {problem}.")
    if not found:
        reason = f"; the Hub was not searched: {problem}" if problem else ""
        fail(f"No model has {text!r} in its name{reason}")
    return Status.YES if found else Status.NO


def _print(found: list[Found]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("model", max_width=46)
    table.add_column("params", justify="right")
    table.add_column("licence", max_width=14)
    table.add_column("downloads", justify="right")
    table.add_column("")
    for each in found:
        marks = [word for word, on in (("bundled", each.bundled), ("gated", each.gated)) if on]
        table.add_row(
            each.id,
            short_count(each.parameters) if each.parameters is not None else "-",
            each.license or "-",
            short_count(each.downloads) if each.downloads is not None else "-",
            ", ".join(marks),
        )
    show(table)
