"""A launch that may start or not: neither a yes nor a no, and exit status 3."""

from __future__ import annotations

import json

import pytest
from launches import bundled
from msgspec.structs import replace
from program import Vplan

from hardware_db import find_rig
from planner import EngineConfig, Requirements, plan_memory
from planner.engine.releases import find_release
from planner.memory.free_memory import device_total, start_margin
from planner.memory.verdict import Answer
from planner.quantity import Quantity
from planner.recommendation.rank import recommend
from planner.recommendation.settle import Settled, settle
from planner.workload import Workload

MODEL = "Qwen/Qwen3-8B"
ASKED = Requirements(Workload(1024, 384), "chat", context=4096)


@pytest.fixture(scope="module")
def rig() -> str:
    """A card between those that surely hold the model and those that surely do not."""
    card, release = bundled(MODEL), find_release("0.33.0")
    for tenths in range(150, 200):
        text = f"custom:{tenths / 10}GiB@1000,cc=8.9"
        found = settle(card, find_rig(text), ASKED, release)
        if isinstance(found, Settled):
            assert not found.sure  # the next larger cards after those that cannot
            assert 0.05 < found.memory.starts.chance_of_refusal < 0.95
            return text
    pytest.fail("no such card")


def test_the_program_says_so(rig: str, vplan_here: Vplan) -> None:
    run = vplan_here("recommend", "--gpu", rig, "--model", MODEL, "--context", "4096", "--offline")
    assert run.status == 3
    assert "may not start" in run.err
    assert "vllm serve" in run.out


def test_json_says_so(rig: str, vplan_here: Vplan) -> None:
    run = vplan_here(
        "recommend", "--gpu", rig, "--model", MODEL, "--context", "4096", "--offline", "--json"
    )
    assert run.status == 3
    starts = json.loads(run.out)["plan"]["memory"]["starts"]
    assert starts["answer"] == "risky"
    assert 0.05 < starts["chance_of_refusal"] < 0.95


def test_it_is_not_ranked(rig: str) -> None:
    ranked = recommend(find_rig(rig), ASKED, vllm="0.33.0", limit=1000)
    assert all(choice.settled.sure for choice in ranked.choices)
    assert not any(c.model_id == MODEL for c in ranked.choices)


def test_what_may_be_missing_is_not_called_less() -> None:
    """The RTX 4060's 7.66 GiB: 92 % are 7.05, and about 7.2 are free beside the context."""
    config = EngineConfig(max_model_len=2048)
    memory = plan_memory(bundled("Qwen/Qwen3-0.6B"), find_rig("4060"), config)
    assert memory.starts.answer is Answer.RISKY
    assert memory.start.margin.value > 0
    assert "may turn out to be less" in memory.starts.reason


def test_the_same_uncertain_total_counts_once() -> None:
    """A twelfth of the device is left of 92 %: so large, too, is its share of the uncertainty."""
    slot = find_rig("4060").smallest
    total, margin = device_total(slot), start_margin(slot, Quantity.exact(0), 0.92)
    assert total.low < total.value
    assert margin.value == pytest.approx(0.08 * total.value)
    assert margin.value - margin.low == pytest.approx(0.08 * (total.value - total.low))


def test_a_state_for_every_request() -> None:
    """vLLM captures no graphs of recurrent layers with fewer blocks than requests (0.20.0 on):
    Qwen3-Next has one block for several hundred tokens, so 256 requests need much cache."""
    card, rig = bundled("Qwen/Qwen3.5-9B"), find_rig("h100-sxm")
    few = EngineConfig(max_model_len=4096, num_gpu_blocks_override=200, max_num_seqs=201)
    memory = plan_memory(card, rig, few, vllm="0.33.0")
    assert memory.kv_cache.fits
    assert memory.starts.answer is Answer.NO
    assert "(max_num_seqs)" in memory.starts.reason
    enough = replace(few, max_num_seqs=200)
    assert plan_memory(card, rig, enough, vllm="0.33.0").starts.answer is Answer.YES
    assert plan_memory(card, rig, few, vllm="0.19.1").starts.answer is Answer.YES
    eager = replace(few, enforce_eager=True)
    assert plan_memory(card, rig, eager, vllm="0.33.0").starts.answer is Answer.YES
