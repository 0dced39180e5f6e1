"""Where the time of a validation went, in words and as what it took beside vLLM's start."""

from __future__ import annotations

import pytest

from planner.launch.spent import Spent


@pytest.mark.parametrize(
    ("spent", "words", "beside"),
    [
        (Spent(), "", 0.0),
        (Spent(stop=0.2), "", 0.2),
        (Spent(58.4, 13.2, stop=2.1), "vLLM's start 58 s, first requests 13 s, stop 2 s", 15.3),
        (Spent(58.4, 13.0, 60.0, 35.5, 2.0),
         "vLLM's start 58 s, first requests 13 s, load 60 s (24 s until it sent any), stop 2 s",
         75.0),
        (Spent(None, 3.0, 30.0), "first requests 3 s, load 30 s", 33.0),  # of an attached one
    ],
)  # fmt: skip
def test_in_words(spent: Spent, words: str, beside: float) -> None:
    assert str(spent) == words
    assert spent.beside_the_start == pytest.approx(beside)
