"""Numbers as people read them."""

from __future__ import annotations

from planner.quantity import Basis, Quantity

_GIB = 2**30


def gib(value: float) -> str:
    """Bytes in GiB."""
    return f"{value / _GIB:.2f}"


def gib_band(quantity: Quantity) -> str:
    """Bytes in GiB with the band where there is one."""
    if quantity.basis is Basis.EXACT or quantity.low == quantity.high:
        return gib(quantity.value)
    dash = "-" if quantity.low >= 0 else " to "
    return f"{gib(quantity.value)} [{gib(quantity.low)}{dash}{gib(quantity.high)}]"


def count(value: float) -> str:
    """A whole number with thousands separators."""
    return f"{int(value):,}"


def short_count(value: float) -> str:
    """Tokens and parameters in three digits: 8.19B, 26.0k, 132k."""
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{suffix}"
    return f"{value:.0f}"


def short_band(quantity: Quantity) -> str:
    """A count in three digits with its band."""
    low, high = short_count(quantity.low), short_count(quantity.high)
    value = short_count(quantity.value)
    return value if low == high else f"{value} [{low}-{high}]"


def tokens_band(quantity: Quantity) -> str:
    """A count in full with its band."""
    if quantity.basis is Basis.EXACT or quantity.low == quantity.high:
        return count(quantity.value)
    return f"{count(quantity.value)} [{count(quantity.low)}-{count(quantity.high)}]"


def chance(share: float) -> str:
    """A probability in whole percent."""
    if share < 0.01:
        return "under 1 %"
    return "over 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def rate_band(quantity: Quantity) -> str:
    """Tokens per second with the band."""
    return f"{quantity.value:,.0f} [{quantity.low:,.0f}-{quantity.high:,.0f}]"


def times_band(quantity: Quantity) -> str:
    """How many times something fits, with the band where there is one."""
    value = f"{quantity.value:,.1f}"
    if quantity.low == quantity.high:
        return value
    return f"{value} [{quantity.low:,.1f}-{quantity.high:,.1f}]"


def seconds_band(quantity: Quantity) -> str:
    """A time with its band, all three in one unit."""
    if quantity.high < 1:
        return f"{rate_band(quantity.times(1000))} ms"
    return f"{quantity.value:.2f} [{quantity.low:.2f}-{quantity.high:.2f}] s"


def seconds(value: float) -> str:
    """A time."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
