"""Knob: what it shows, what may be written into it, and the steps it turns through."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from planner.errors import PlanError
from planner.settings import Settings
from planner.tui.outcome import Outcome
from planner.workload import token_count

POWERS: Final = tuple(2**exponent for exponent in range(24))


class Knob(Struct, frozen=True):
    """One knob.

    `write` takes what a person wrote and raises `PlanError` or `ValueError` with what is wrong;
    `steps` are what the arrow keys go through, none where a list to pick from serves better.
    """

    key: str
    label: str
    hint: str
    text: Callable[[Settings], str]  # as it would be written
    show: Callable[[Settings, Outcome | None], str]
    write: Callable[[Settings, str], Settings]
    steps: Callable[[Settings, Outcome | None], Sequence[str | float]]
    at: Callable[[Settings, Outcome | None], str | float | None]  # where among the steps it is
    picks: bool = False  # Enter opens a list


def turn(knob: Knob, settings: Settings, outcome: Outcome | None, by: int) -> Settings | None:
    """The settings one step on (`by` 1) or back (-1), None at the end."""
    steps, at = list(knob.steps(settings, outcome)), knob.at(settings, outcome)
    if not steps:
        return None
    if isinstance(at, str) or at is None:
        position = (steps.index(at) if at in steps else -by) + by
    else:
        numbers = [step for step in steps if not isinstance(step, str)]
        position = bisect_right(numbers, at) if by > 0 else bisect_left(numbers, at) - 1
    if not 0 <= position < len(steps):
        return None
    step = steps[position]
    return knob.write(settings, step if isinstance(step, str) else f"{step:g}".replace("e+", "e"))


def whole(text: str) -> int:
    """A whole number as people write it, 32k for 32768; `PlanError` for anything else."""
    try:
        return token_count(text)
    except PlanError:
        raise PlanError(
            f"{text.strip()!r} is no whole number; one looks like 16384 or 16k"
        ) from None
