"""Constants for each launch that were fitted without it: its source, or its architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from fit_constants import Implied, implied, table_of
from launch_models import launched_card
from launch_rows import Launch

from planner.memory.constants import Table


def folds(launches: Sequence[Launch]) -> Callable[[Launch], Table]:
    """The table to plan a launch with.

    Without the launch's source; inside the largest source, which is one programme of many models,
    without the launches there of models of its architecture.
    """
    known = implied(launches)
    programme = largest(launches)

    @cache
    def without(source: str, architecture: str | None) -> Table:
        return table_of([one for one in known if not _belongs(one, source, architecture)])

    def table(launch: Launch) -> Table:
        inside = launch.source_group == programme
        return without(launch.source_group, _architecture(launch) if inside else None)

    return table


def programme_left_out(
    launches: Sequence[Launch],
) -> tuple[list[Launch], Callable[[Launch], Table]]:
    """The launches of the largest source, and constants fitted to all others."""
    programme = largest(launches)
    table = table_of([one for one in implied(launches) if one.launch.source_group != programme])
    mine = [launch for launch in launches if launch.source_group == programme]
    return mine, lambda launch: table


def largest(launches: Sequence[Launch]) -> str:
    """The source with the most launches."""
    return Counter(launch.source_group for launch in launches).most_common(1)[0][0]


def _belongs(one: Implied, source: str, architecture: str | None) -> bool:
    if one.launch.source_group != source:
        return False
    return architecture is None or _architecture(one.launch) == architecture


def _architecture(launch: Launch) -> str:
    card = launched_card(launch.model)
    return card.architecture if card is not None else launch.model
