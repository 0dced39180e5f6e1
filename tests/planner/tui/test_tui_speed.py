"""A knob's effect is visible at once."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import knob_changes
import pytest


@pytest.fixture
def alone() -> Iterator[None]:
    """What an app does that has a process to itself is undone."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("size", knob_changes.SIZES[:2], ids=str)
def test_95_of_100_changes_show_within_the_bar(size: tuple[int, int]) -> None:
    costs = knob_changes.at_size(size, count=40, seed=3, longest_pause=0.02)
    seconds = [cost.processor for cost in costs]  # the machine may be shared
    assert knob_changes.percentile(seconds, 0.95) <= knob_changes.BAR, costs
