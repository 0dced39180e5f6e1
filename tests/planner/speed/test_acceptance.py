"""Acceptance: published counts and lengths, and the textbook's formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import PlanError
from planner.quantity import Basis
from planner.speed.acceptance import (
    TASKS,
    Acceptance,
    acceptance_data,
    curve_of,
    expected_acceptance,
    iid_length,
    task_of,
)


def test_length_is_one_and_the_survival_of_each_position() -> None:
    """vLLM's own test of a head for Llama-3.1-8B counts .7296, .5208 and .3545: length 2.60."""
    counted = [0.7296, 0.5208, 0.3545]
    rates = [counted[0], counted[1] / counted[0], counted[2] / counted[1]]
    draft = Acceptance(rates[0], rates[2] / rates[1], rates[1] / rates[0])
    assert draft.survival(3) == pytest.approx(counted, abs=1e-4)
    assert draft.length(3) == pytest.approx(2.60, abs=0.01)


def test_positions_of_a_published_head_from_its_length_alone() -> None:
    """The same head: what it accepts at each position follows from 2.60 at three tokens."""
    draft = curve_of("eagle3").from_length(2.605, 3)
    assert draft.survival(3) == pytest.approx([0.7296, 0.5208, 0.3545], abs=0.03)


@pytest.mark.parametrize(
    ("rate", "lengths"),
    [
        (0.62, (2.243, 2.390, 2.482)),
        (0.75, (2.734, 3.051, 3.288)),
        (0.80, (2.952, 3.362, 3.689)),
        (0.85, (3.187, 3.709, 4.152)),
    ],
)
def test_textbook_lengths(rate: float, lengths: tuple[float, ...]) -> None:
    for tokens, length in zip((3, 4, 5), lengths, strict=True):
        assert iid_length(rate, tokens) == pytest.approx(length, abs=6e-4)
        assert Acceptance(rate).length(tokens) == pytest.approx(length, abs=6e-4)
    assert iid_length(1.0, 4) == 5


def test_the_textbook_promises_too_much_at_more_tokens() -> None:
    """EAGLE-1 on Llama-3.1-8B: 2.10 tokens at k = 2, 2.47 at 7; a constant rate says 15 % more."""
    rate = 0.6618  # 1 + a + a^2 = 2.10
    assert iid_length(rate, 2) == pytest.approx(2.10, abs=1e-3)
    assert iid_length(rate, 7) > 1.1 * 2.47
    assert curve_of("eagle").from_length(2.10, 2).length(7) == pytest.approx(2.47, rel=0.02)


def test_matched_text_goes_on_matching() -> None:
    """N-grams on edits, counted by vLLM: .81, .74, .70, .68, .66: the next is surer."""
    rates = curve_of("ngram").from_first(0.81).rates(5)
    assert rates == sorted(rates)
    assert rates[1] == pytest.approx(0.74 / 0.81, abs=0.05)
    assert all(rate <= 1 for rate in curve_of("ngram").from_first(0.97).rates(24))


@given(
    first=st.floats(0.01, 0.99),
    method=st.sampled_from(["eagle", "eagle3", "ngram", "mtp"]),
    tokens=st.integers(1, 24),
)
def test_lengths_are_found_again(first: float, method: str, tokens: int) -> None:
    draft = curve_of(method).from_first(first)
    length = draft.length(tokens)
    assert 1 <= length <= tokens + 1
    again = curve_of(method).from_length(length, tokens)
    assert again.length(tokens) == pytest.approx(length, abs=1e-3)
    table = draft.length(np.arange(tokens + 1))
    assert table[0] == 1
    assert table[tokens] == pytest.approx(length)
    assert (np.diff(table) >= 0).all()


@pytest.mark.parametrize(("length", "tokens"), [(4.6, 3), (0.9, 3)])
def test_impossible_lengths_are_refused(length: float, tokens: int) -> None:
    with pytest.raises(PlanError, match="lies between 1 and 4"):
        curve_of("eagle3").from_length(length, tokens)


def test_every_method_has_every_task() -> None:
    for method, by_task in acceptance_data()["methods"].items():
        for task in TASKS:
            entry = by_task[task]
            assert 0 < entry["low"] <= entry["likely"] <= entry["high"] < 1, (method, task)
            expected = expected_acceptance(method, task)
            assert expected.low.first <= expected.likely.first <= expected.high.first


def test_a_measured_draft_has_its_own_rates() -> None:
    """Of one head on gsm8k and math500 SpecForge measured 1.28 and 2.37 tokens at k = 3."""
    own = expected_acceptance("eagle3", "math", draft="lmsys/sglang-EAGLE3-LLaMA3.3-Instruct-70B")
    usual = expected_acceptance("eagle3", "math")
    assert own.likely.first < 0.6 < 0.8 < usual.likely.first
    assert "SpecForge" in own.source
    assert own.basis is Basis.CALIBRATED


def test_a_draft_in_the_checkpoint_is_found_in_any_format() -> None:
    plain = expected_acceptance("mtp", "chat", target="Qwen/Qwen3.5-397B-A17B")
    fp8 = expected_acceptance("mtp", "chat", target="nvidia/Qwen3.5-397B-A17B-NVFP4")
    assert plain.likely == fp8.likely
    assert plain.likely.length(8) == pytest.approx(5.21, rel=0.02)  # InferenceX's table


def test_sampling_costs_small_models_more() -> None:
    """EAGLE-3 at temperature 1: a tenth of the first rate at 14B and below, 3 % at 70B."""
    greedy = expected_acceptance("eagle3", "chat", parameters=8e9).likely.first
    small = expected_acceptance("eagle3", "chat", temperature=1.0, parameters=8e9).likely.first
    large = expected_acceptance("eagle3", "chat", temperature=1.0, parameters=70e9).likely.first
    half = expected_acceptance("eagle3", "chat", temperature=0.35, parameters=8e9).likely.first
    assert small == pytest.approx(0.90 * greedy)
    assert large == pytest.approx(0.97 * greedy)
    assert small < half < greedy


def test_tasks_of_use_cases() -> None:
    assert [task_of(each) for each in ("chat", "agent", "rag", "reasoning")] == [
        "chat", "code", "rag", "reasoning",
    ]  # fmt: skip
    with pytest.raises(PlanError, match="one of chat, code"):
        expected_acceptance("eagle3", "poetry")
