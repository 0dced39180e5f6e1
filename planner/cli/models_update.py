"""`vplan models update`: read the models of the user's own catalogue anew."""

from __future__ import annotations

from typing import Annotated

import typer

from model_cards.errors import CardError
from model_cards.sources import user_catalogue
from model_cards.sources.kept import Kept
from model_cards.sources.open import refresh_card
from model_cards.sources.user_catalogue import Member, SetAside
from planner.cli.console import fail, say_item
from planner.cli.status import Status
from planner.errors import PlanError


def update(
    model: Annotated[
        str | None, typer.Argument(help="One of your catalogue; all if left out.")
    ] = None,
) -> int:
    """Read the models of your own catalogue anew, from the Hub or their folders.

    The bundled snapshot is never written to. Exit status 1: at least one could not be read; it
    stays as it was.
    """
    members = list(user_catalogue.members()) if model is None else [_find(model)]
    if not members:
        raise PlanError("your catalogue is empty; vplan models add MODEL keeps one there")
    failed = 0
    for member in members:
        try:
            if isinstance(member, SetAside):
                raise member
            say_item(f"{member.name}: {_update(member)}")
        except CardError as error:
            failed += 1
            name = f"{member.name}: " if isinstance(member, Member) else ""
            fail(f"{name}{error}; unchanged" if name else str(error))
    return Status.NO if failed else Status.YES


def _find(name: str) -> Member:
    model_id, _, revision = name.partition("@")
    member = user_catalogue.find(model_id, revision or None)
    if member is None:
        raise PlanError(f"{name} is not in your catalogue; vplan models add keeps it there")
    return member


def _update(member: Member) -> str:
    """Read one anew; what became of it."""
    old = member.kept
    reference = old.model_id
    if old.origin.revision is not None:
        reference = f"{reference}@{old.origin.revision}"
    card = refresh_card(reference)
    user_catalogue.add(member.name, card)
    new = Kept.of(card)
    if new.says_the_same(old):
        return f"unchanged since {old.fetched.isoformat()} ({card.origin.detail})"
    return f"changed since {old.fetched.isoformat()} ({card.origin.detail})"
