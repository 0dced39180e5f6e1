"""Numbers of a comparison as text."""

from __future__ import annotations

from planner.cli.format import chance, gib, rate_band, seconds, short_band
from planner.comparison import Row, Unit
from planner.quantity import Quantity


def shown(row: Row, quantity: Quantity | None) -> str:
    """The number of one side, with its band where that is short."""
    if quantity is None:
        return "-"
    match row.unit:
        case Unit.BYTES:
            return f"{gib(quantity.value)} GiB"
        case Unit.TOKENS:
            return short_band(quantity)
        case Unit.RATE:
            return f"{rate_band(quantity)} tok/s"
        case Unit.SECONDS:
            return seconds(quantity.value)
        case Unit.SHARE:
            return chance(quantity.value)
        case Unit.DOLLARS:
            return f"{quantity.value:.2f} $/h"
        case Unit.POINTS:
            return f"{quantity.value:.1f} [{quantity.low:.1f}-{quantity.high:.1f}]"
        case _:
            return f"{quantity.value:.1f}"


def change(row: Row) -> str:
    """As a factor where it is large, else in percent; none of shares and scores."""
    share = row.change
    if share is None or row.unit in (Unit.SHARE, Unit.POINTS) or abs(share) < 0.005:
        return ""
    return f"x {1 + share:.2g}" if share >= 1 or share <= -0.5 else f"{100 * share:+.0f} %"
