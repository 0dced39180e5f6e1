"""Numbers of a comparison as text."""

from __future__ import annotations

from planner.cli.format import (
    chance,
    gib_band,
    rate_band,
    seconds_band,
    short_band,
    times_band,
)
from planner.comparison import Row, Unit
from planner.quantity import Quantity

_UNITS = {Unit.BYTES: "GiB", Unit.RATE: "tok/s", Unit.DOLLARS: "$/h"}


def label(name: str, unit: Unit) -> str:
    """The name of a row, with the unit of its numbers where it is one for all."""
    return f"{name}, {_UNITS[unit]}" if unit in _UNITS else name


def shown(unit: Unit, quantity: Quantity | None) -> str:
    """The number of one side with its band, without what the label says."""
    if quantity is None:
        return "-"
    match unit:
        case Unit.BYTES:
            return gib_band(quantity)
        case Unit.TOKENS:
            return short_band(quantity)
        case Unit.RATE:
            return rate_band(quantity)
        case Unit.SECONDS:
            return seconds_band(quantity)
        case Unit.SHARE:
            return chance(quantity.value)
        case Unit.DOLLARS:
            return f"{quantity.value:.2f}"
        case Unit.POINTS:
            return f"{quantity.value:.1f} [{quantity.low:.1f}-{quantity.high:.1f}]"
        case _:
            return times_band(quantity)


def change(row: Row) -> str:
    """As a factor where it is large, else in percent; none of shares and scores."""
    share = row.change
    if share is None or row.unit in (Unit.SHARE, Unit.POINTS) or abs(share) < 0.005:
        return ""
    return f"x {1 + share:.2g}" if share >= 1 or share <= -0.5 else f"{100 * share:+.0f} %"
