"""A number that says how far it can be trusted: value, band and basis."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from math import erf, sqrt

from msgspec import Struct


class Basis(IntEnum):
    """Where a number comes from, best first. A result's basis is the worst of its inputs'."""

    EXACT = 0  # reproduces vLLM's arithmetic from known inputs
    MEASURED = 1  # read from a run on this machine
    CALIBRATED = 2  # a constant fitted to real launches
    ESTIMATED = 3  # no data of this kind; wide band

    @property
    def label(self) -> str:
        """The name as shown and written to JSON."""
        return self.name.lower()


# A band is meant to hold nine cases in ten: 1.645 standard deviations to each side.
BAND_SIGMAS = 1.645


class Quantity(Struct, frozen=True):
    """A value with the band [low, high] that should hold nine of ten cases.

    `source` says in a few words what the value was taken from.
    """

    value: float
    low: float
    high: float
    basis: Basis
    source: str = ""

    @classmethod
    def exact(cls, value: float, source: str = "") -> Quantity:
        """A number without a band."""
        return cls(value, value, value, Basis.EXACT, source)

    @classmethod
    def within(cls, value: float, share: float, basis: Basis, source: str = "") -> Quantity:
        """`value` give or take a share of it."""
        return cls(value, value * (1 - share), value * (1 + share), basis, source)

    def __add__(self, other: Quantity) -> Quantity:
        return total((self, other))

    def __sub__(self, other: Quantity) -> Quantity:
        return total((self, other.times(-1)))

    def times(self, factor: float) -> Quantity:
        """Scaled by a known factor."""
        ends = sorted((self.low * factor, self.high * factor))
        return Quantity(self.value * factor, ends[0], ends[1], self.basis, self.source)

    def no_better_than(self, basis: Basis) -> Quantity:
        """The same with at best that basis."""
        return Quantity(self.value, self.low, self.high, max(self.basis, basis), self.source)

    def chance_below(self, threshold: float) -> float:
        """Probability that the true value lies below `threshold`.

        A normal distribution on each side of the value, the band its nine-in-ten interval.
        """
        half = self.value - self.low if threshold < self.value else self.high - self.value
        if half <= 0:
            return 1.0 if threshold > self.value else 0.0
        sigma = half / BAND_SIGMAS
        return 0.5 * (1 + erf((threshold - self.value) / (sigma * sqrt(2))))


def total(parts: Iterable[Quantity]) -> Quantity:
    """Sum of independent quantities: values add, half-bands add in quadrature."""
    value, below, above, basis = 0.0, 0.0, 0.0, Basis.EXACT
    for part in parts:
        value += part.value
        below += (part.value - part.low) ** 2
        above += (part.high - part.value) ** 2
        basis = max(basis, part.basis)
    if below == above == 0:
        return Quantity(value, value, value, basis)
    return Quantity(value, value - sqrt(below), value + sqrt(above), basis)
