"""`vplan models add`: keep what a checkpoint says in the user's own catalogue."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from model_cards import open_card
from model_cards.sources import user_catalogue
from model_cards.sources.local import looks_like_path
from model_cards.sources.open import refresh_card
from planner.cli.console import say
from planner.cli.format import short_count
from planner.errors import PlanError


def add(
    model: Annotated[str, typer.Argument(help="A Hub id, ID@REVISION, or a folder.")],
    name: Annotated[
        str | None, typer.Option(help="What to call it; the id, or the folder's own name.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="From the cache or the bundled snapshot.")
    ] = False,
) -> None:
    """Keep a model in your own catalogue: it is planned from there, also without the Hub.

    Kept are the config and what the headers of its files tell; no weights.
    """
    is_folder = looks_like_path(model)
    if is_folder:
        model = os.path.abspath(os.path.expanduser(model))
    card = open_card(model, offline=True) if offline else refresh_card(model)
    called = name or (os.path.basename(model) if is_folder else _named(card.model_id, model))
    if name is not None and not is_folder:
        raise PlanError("a model of the Hub keeps its id; --name is for folders")
    member = user_catalogue.add(called, card)
    source = "" if card.origin.kind in ("bundled", "folder") else f", {card.origin.detail}"
    say(
        f"{member.name} is kept: {short_count(card.parameters)} parameters as {card.format_kind} "
        f"(from: {card.origin.kind}{source})."
    )
    say(f"vplan recommend --model {member.name} plans it; vplan models update reads it anew.")


def _named(model_id: str, reference: str) -> str:
    """The id as the Hub spells it, with the revision that was asked for."""
    _, at, revision = reference.partition("@")
    return f"{model_id}{at}{revision}"
