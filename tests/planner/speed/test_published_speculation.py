"""Speculation against what was published: lengths, speed-ups, optima and crossovers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launches import plan
from speculation_accuracy import DEFAULT, score
from speculation_rows import read_rows

from planner.engine_config import SpeculativeConfig
from planner.memory.plan import MemoryPlan
from planner.speed.acceptance import expected_acceptance
from planner.speed.speculative import SpeculativeModel

EAGLE = "yuhuili/EAGLE-LLaMA3-Instruct-8B"  # of the dimensions of the one for Llama-3.1-8B
EAGLE3 = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@cache
def figures() -> dict[str, Any]:
    return score(read_rows(Path(DEFAULT)))


def test_lengths_at_more_tokens() -> None:
    """A constant decay of .97 gives 1.5 % median and 6.2 % p90, a constant rate 4.0 and 12.0."""
    found = figures()
    assert found["tau"]["all"]["rows"] == 123
    assert found["tau_median_abs_pct"] <= 1.2
    assert found["tau_p90_abs_pct"] <= 4
    assert found["tau"]["from_one"]["median"] <= 1.6
    assert found["tau"]["all"]["p90"] <= 4
    assert found["tau"]["textbook_iid"]["median"] > 3.5  # the measure is not too kind
    assert 0.85 <= found["tau_band90_coverage"] <= 0.95


def test_speedups_of_published_launches() -> None:
    found = figures()
    assert found["speedup_coverage"] == 1
    assert found["speedup"]["all"]["rows"] == 53
    assert found["speedup_median_abs_pct"] <= 8
    assert found["speedup"]["batch_1"]["median"] <= 8
    assert 0.85 <= found["speedup_band90_coverage"] <= 0.95


def test_whether_it_pays() -> None:
    found = figures()
    assert found["not_predicted"] == []
    assert found["decision_accuracy"] >= 0.80
    assert found["decision_accuracy_serving_engines"] >= 0.85


def llama(rig: str, method: str, draft: str, tokens: int) -> MemoryPlan:
    """As vLLM of spring 2025 ran it, when these were measured."""
    speculative = SpeculativeConfig(method, tokens, draft)
    return plan(
        LLAMA, rig, draft=draft, release="0.9.1", max_model_len=4096,
        speculative_config=speculative,
    )  # fmt: skip


@pytest.mark.parametrize(("method", "draft", "best"), [("eagle", EAGLE, 3), ("eagle3", EAGLE3, 4)])
def test_best_numbers_of_tokens(method: str, draft: str, best: int) -> None:
    """vLLM on an H100, MT-bench, batch 1: EAGLE was fastest with 3 tokens, EAGLE-3 with 4."""
    model = SpeculativeModel.of(llama("h100-sxm", method, draft, best))
    measured = draft.replace("LLaMA3-", "LLaMA3.1-") if method == "eagle" else draft
    expected = expected_acceptance(method, "chat", draft=measured)
    assert model.best_tokens(1, 300, expected.likely, range(1, 9)) == best


def test_break_even_of_eagle3_on_an_a100() -> None:
    """With two tokens 1.21 times as fast at 48 requests, 1.01 at 56: the end is near there."""
    model = SpeculativeModel.of(llama("a100-sxm4-80gb", "eagle3", EAGLE3, 2))
    expected = expected_acceptance("eagle3", "chat", draft=EAGLE3)
    assert 40 <= model.break_even(512, 2, expected.likely) <= 72
    assert model.speedup(2, 512, 2, expected.likely) == pytest.approx(1.75, rel=0.1)


def test_slow_memory_gains_more_and_weak_chips_lose_it_sooner() -> None:
    """At batch 1 an RTX 4090 gains more than an H100; int4 on an RTX 3090 is past it at batch 8."""
    drafting = SpeculativeConfig("eagle3", 3, EAGLE3)
    rates = expected_acceptance("eagle3", "code").likely
    gains = {}
    for rig in ("h100-sxm", "rtx-4090"):
        memory = plan(LLAMA, rig, draft=EAGLE3, max_model_len=4096,
                      speculative_config=drafting)  # fmt: skip
        gains[rig] = SpeculativeModel.of(memory).speedup(1, 1024, 4, rates)
    assert gains["rtx-4090"] > gains["h100-sxm"] > 1.5
    awq = "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4"
    memory = plan(awq, "rtx-3090", draft=EAGLE3, max_model_len=4096,
                  speculative_config=drafting)  # fmt: skip
    model = SpeculativeModel.of(memory)
    one, eight = (model.speedup(batch, 1024, 4, rates) for batch in (1, 8))
    assert eight < 0.85 * one


def test_sparse_models_gain_least_while_experts_are_not_all_read() -> None:
    """128 experts, 8 a token: verifying reads more of them, until a batch reads all anyway."""
    draft = "AngelSlim/Qwen3-a3B_eagle3"
    memory = plan("Qwen/Qwen3-30B-A3B", "h100-sxm", draft=draft, max_model_len=4096,
                  speculative_config=SpeculativeConfig("eagle3", 3, draft))  # fmt: skip
    model, rates = SpeculativeModel.of(memory), expected_acceptance("eagle3", "chat").likely
    few, many = (float(model.speedup(batch, 1024, 3, rates)) for batch in (4, 64))
    assert few < many


def test_long_contexts_move_the_break_even() -> None:
    """The cache is read once for all tokens of a request: the longer it is, the more they save."""
    model = SpeculativeModel.of(llama("a100-sxm4-80gb", "eagle3", EAGLE3, 3))
    rates = expected_acceptance("eagle3", "chat").likely
    short, long = (model.break_even(context, 3, rates) for context in (512, 16384))
    assert long > short


def test_ten_thousand_points_at_once() -> None:
    """Arrays of batch, context and tokens: the same numbers as one by one, in next to no time."""
    from time import process_time

    model = SpeculativeModel.of(llama("h100-sxm", "eagle3", EAGLE3, 3))
    rates = expected_acceptance("eagle3", "chat").likely
    batches = np.arange(1, 51)[:, None, None]
    contexts = np.linspace(128, 32768, 20)[None, :, None]
    tokens = np.arange(1, 11)[None, None, :]
    times = []
    for _ in range(5):
        begun = process_time()
        grid = model.speedup(batches, contexts, tokens, rates)
        times.append(process_time() - begun)
    assert grid.shape == (50, 20, 10)
    assert min(times) < 0.05
    one = model.speedup(8, float(contexts[0, 7, 0]), 4, rates)
    assert grid[7, 7, 3] == pytest.approx(one)
