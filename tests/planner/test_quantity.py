"""Bands, bases and chances of a Quantity, against arithmetic done by hand."""

from __future__ import annotations

from itertools import product

import pytest

from planner import Basis, Quantity
from planner.quantity import total

BEST_TO_WORST = [Basis.EXACT, Basis.MEASURED, Basis.CALIBRATED, Basis.ESTIMATED]


def of(value: float, low: float, high: float, basis: Basis = Basis.CALIBRATED) -> Quantity:
    return Quantity(value, low, high, basis)


def band(quantity: Quantity) -> tuple[float, float, float]:
    return quantity.low, quantity.value, quantity.high


def test_an_exact_number_has_no_band() -> None:
    assert band(Quantity.exact(7)) == (7, 7, 7)
    assert Quantity.exact(7).basis is Basis.EXACT


def test_a_share_to_each_side() -> None:
    assert band(Quantity.within(200, 0.25, Basis.ESTIMATED)) == (150, 200, 250)


def test_a_negative_factor_turns_the_band_round() -> None:
    assert band(of(10, 9, 13).times(-2)) == (-26, -20, -18)
    assert band(of(10, 9, 13).times(0.5)) == (4.5, 5, 6.5)


def test_half_bands_of_a_sum_add_in_quadrature_side_by_side() -> None:
    # below: sqrt(3^2 + 4^2) = 5; above: sqrt(5^2 + 12^2) = 13
    assert band(of(10, 7, 15) + of(20, 16, 32)) == (25, 30, 43)


def test_a_difference_meets_the_other_side_of_what_is_taken_off() -> None:
    # below: sqrt(6^2 + 8^2) = 10; above: sqrt(4^2 + 3^2) = 5
    assert band(of(100, 94, 104) - of(40, 37, 48)) == (50, 60, 65)


def test_exact_numbers_neither_widen_nor_narrow_a_sum() -> None:
    assert band(of(10, 8, 13) + Quantity.exact(5)) == (13, 15, 18)
    assert band(Quantity.exact(2) + Quantity.exact(3)) == (5, 5, 5)


def test_a_sum_of_many_is_narrower_than_the_sum_of_their_bands() -> None:
    # 16 parts of 1 +- 1: 16 +- sqrt(16) = 4, not 16 +- 16
    assert band(total(of(1, 0, 2) for _ in range(16))) == (12, 16, 20)


def test_the_sum_of_nothing() -> None:
    assert band(total(())) == (0, 0, 0)
    assert total(()).basis is Basis.EXACT


@pytest.mark.parametrize(("one", "other"), list(product(BEST_TO_WORST, repeat=2)))
def test_a_result_is_as_good_as_its_worst_input(one: Basis, other: Basis) -> None:
    worst = BEST_TO_WORST[max(BEST_TO_WORST.index(one), BEST_TO_WORST.index(other))]
    a, b = of(5, 4, 6, one), of(3, 3, 3, other)
    assert (a + b).basis is worst
    assert (a - b).basis is worst
    assert (b - a).basis is worst
    assert total([b, a, b]).basis is worst
    assert a.no_better_than(other).basis is worst
    assert a.times(3).basis is one


def test_basis_labels() -> None:
    assert [basis.label for basis in BEST_TO_WORST] == [
        "exact", "measured", "calibrated", "estimated",
    ]  # fmt: skip


def test_no_better_than_leaves_the_numbers() -> None:
    assert band(of(10, 8, 13).no_better_than(Basis.ESTIMATED)) == (8, 10, 13)


@pytest.mark.parametrize(
    # A normal distribution on each side of the value; the band holds nine cases in ten, so its
    # ends are the 5 % and 95 % points and its half 1.645 standard deviations. From a table of
    # the normal distribution: 0.6745 standard deviations are the quartiles, 1 is 15.87 %,
    # 2.3263 is 1 %.
    ("threshold", "chance"),
    [(100, 0.5), (90, 0.05), (140, 0.95),
     (100 - 10 * 0.6745 / 1.645, 0.25), (100 + 40 * 0.6745 / 1.645, 0.75),
     (100 - 10 / 1.645, 0.1587), (100 + 40 / 1.645, 0.8413),
     (100 - 10 * 2.3263 / 1.645, 0.01), (100 + 40 * 2.3263 / 1.645, 0.99)],
)  # fmt: skip
def test_chance_below_a_threshold(threshold: float, chance: float) -> None:
    assert of(100, 90, 140).chance_below(threshold) == pytest.approx(chance, abs=2e-4)


def test_the_chance_grows_with_the_threshold() -> None:
    chances = [of(100, 90, 140).chance_below(threshold) for threshold in range(0, 400, 3)]
    assert chances == sorted(chances)
    assert chances[0] < 1e-9
    assert chances[-1] > 1 - 1e-9


def test_without_a_band_a_chance_is_a_certainty() -> None:
    number = Quantity.exact(5)
    assert [number.chance_below(limit) for limit in (4.999, 5, 5.001)] == [0, 0, 1]


def test_a_band_to_one_side_only() -> None:
    never_less = of(10, 10, 14)
    assert never_less.chance_below(9.99) == 0
    assert never_less.chance_below(14) == pytest.approx(0.95, abs=1e-4)


def test_a_quantity_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Quantity.exact(1).value = 2  # type: ignore[misc]
