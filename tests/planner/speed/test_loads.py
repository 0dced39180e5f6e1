"""The batch-level model of a load against vLLM's scheduler, simulated."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from launches import plan
from msgspec.structs import replace
from scheduler import BLOCK, Outcome, simulate

from planner import MemoryPlan, PlanError, Workload
from planner.speed.load import LoadModel
from planner.speed.step import StepModel

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


VARIED = 0.4  # lengths lie up to this share off their mean
SPREAD = VARIED / 3**0.5  # their standard deviation, of a uniform distribution


def fixed(workload: Workload) -> Callable[[random.Random], tuple[int, int]]:
    return lambda _: (workload.prompt_tokens, workload.output_tokens)


def varied(workload: Workload, share: float) -> Callable[[random.Random], tuple[int, int]]:
    """Lengths up to a share off the mean, uniformly."""

    def lengths(chance: random.Random) -> tuple[int, int]:
        low, high = 1 - share, 1 + share
        return (
            round(workload.prompt_tokens * chance.uniform(low, high)),
            round(workload.output_tokens * chance.uniform(low, high)),
        )

    return lengths


def simulated(memory: MemoryPlan, workload: Workload, **options: object) -> Outcome:
    settings: dict[str, object] = {
        "budget": memory.config.max_num_batched_tokens,
        "most_running": memory.config.max_num_seqs,
        "blocks": memory.kv_cache.tokens // BLOCK,
        "lengths": varied(workload, VARIED),
        "users": workload.concurrency,
        "count": 150,
        **options,
    }
    return simulate(StepModel.of(memory), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("workload", "model", "rig"),
    [(Workload(1024, 256, 4), LLAMA, "h100-sxm"), (Workload(1024, 256, 32), LLAMA, "h100-sxm"),
     (Workload(8192, 512, 16), LLAMA, "h100-sxm"), (Workload(256, 256, 64), LLAMA, "h100-sxm"),
     (Workload(512, 128, 16), "Qwen/Qwen3-8B", "4090"),
     (Workload(2048, 512, 24), "openai/gpt-oss-20b", "h100-sxm")],
)  # fmt: skip
def test_users_who_wait_for_answers(workload: Workload, model: str, rig: str) -> None:
    memory = plan(model, rig, max_model_len=16384)
    workload = replace(workload, prompt_spread=SPREAD, output_spread=SPREAD)
    load = LoadModel.of(memory, workload).at(workload.concurrency)
    truth = simulated(memory, workload)
    assert load.tpot == pytest.approx(truth.tpot, rel=0.12)
    assert load.requests == pytest.approx(truth.requests, rel=0.12)
    assert truth.preemptions == 0
    assert load.preemption_risk == pytest.approx(0, abs=1e-3)
    overhead = LoadModel.of(memory, workload).step.constants["first_token_seconds"]
    assert load.ttft is not None
    assert 0.5 < (load.ttft - overhead) / truth.ttft < 2  # mostly a queue


def test_answers_of_one_length_end_together() -> None:
    """Then prompts come in bunches, and wait for each other."""
    memory, workload = plan(LLAMA, "h100-sxm", max_model_len=16384), Workload(1024, 256, 32)
    alike = simulated(memory, workload, lengths=fixed(workload)).ttft
    mixed = simulated(memory, workload).ttft
    load = LoadModel.of(memory, workload).at(32)
    assert load.ttft is not None
    assert alike > 2 * mixed
    assert 0.5 < load.ttft / alike < 2


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_requests_at_random_times(share: float) -> None:
    memory, workload = plan(LLAMA, "h100-sxm", max_model_len=8192), Workload(1024, 256)
    model = LoadModel.of(memory, workload)
    rate = share * model.at(model.most_running).requests
    load = model.at_rate(rate)
    assert load is not None
    truth = simulated(memory, workload, users=0, rate=rate, count=300)
    assert load.tpot == pytest.approx(truth.tpot, rel=0.15)
    assert load.running == pytest.approx(truth.running, rel=0.25)
    assert load.requests == pytest.approx(rate)


def test_more_requests_than_can_be_answered() -> None:
    memory, workload = plan(LLAMA, "h100-sxm", max_model_len=8192), Workload(1024, 256)
    model = LoadModel.of(memory, workload)
    assert model.at_rate(1.01 * model.at(model.most_running).requests) is None


def test_a_small_cache_holds_as_many_as_their_mean_length_allows() -> None:
    """20,000 tokens: 16 requests of 1,152 tokens on average, where 15 of the full 1,280 fit."""
    memory = plan(LLAMA, "h100-sxm", max_model_len=2048, num_gpu_blocks_override=1250)
    workload = Workload(1024, 256, 32)
    model = LoadModel.of(memory, workload)
    load = model.at(32)
    assert model.most_running == pytest.approx(20_000 / 1_152, rel=0.01)
    truth = simulated(memory, workload, lengths=fixed(workload))
    assert truth.running == pytest.approx(load.running, rel=0.12)
    assert truth.preemptions > 0
    assert load.preemption_risk > 0.3
    assert load.requests == pytest.approx(truth.requests, rel=0.15)
    few = model.at(12)
    assert few.preemption_risk < 0.01
    spacious = simulated(memory, replace(workload, concurrency=12), lengths=fixed(workload))
    assert spacious.preemptions == 0


def test_a_cached_prefix_saves_its_prefill() -> None:
    memory = plan(LLAMA, "h100-sxm", max_model_len=16384)
    plain, shared = Workload(8192, 256, 8), Workload(8192, 256, 8, shared_prefix=0.75)
    alone = LoadModel.of(memory, plain).prompt_seconds(0)
    saved = LoadModel.of(memory, shared).prompt_seconds(0)
    assert 0.2 * alone < saved < 0.4 * alone
    unshared = plan(LLAMA, "h100-sxm", max_model_len=16384, enable_prefix_caching=False)
    assert LoadModel.of(unshared, shared).prompt_seconds(0) == pytest.approx(alone)


def test_a_load_by_hand() -> None:
    """Of a cycle with n users: n prompts and the answer's decode steps, and nothing else."""
    memory, workload = plan(LLAMA, "h100-sxm", max_model_len=8192), Workload(1000, 100, 10)
    model = LoadModel.of(memory, workload)
    load = model.at(10)
    decode, prompt = model.decode_step(10).total, model.prompt_seconds(10)
    cycle = 100 * decode + 10 * prompt
    assert load.requests == pytest.approx(10 / cycle)
    # 10 prompts of 1,000 tokens at 2 x 7.5e9 operations, 989e12 a second at most.
    assert prompt > 1000 * 2 * 7.0e9 / 989e12
    assert decode < load.tpot < decode + 9 * prompt / 100


def test_answers_that_vary_are_met_when_they_are_long() -> None:
    assert Workload(1000, 100).decode_context == 1050
    assert Workload(1000, 100, output_spread=1.0).decode_context == 1100


def test_the_largest_load_that_keeps_the_targets() -> None:
    memory, workload = plan(LLAMA, "h100-sxm", max_model_len=8192), Workload(1024, 256)
    model = LoadModel.of(memory, workload)
    most = model.most_users(0.015, None)
    assert 1 < most < model.most_running
    assert model.at(most).tpot <= 0.015 < model.at(most * 1.02).tpot
    assert model.most_users(0.001, None) == 0
    assert model.most_users(None, 1e-6) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"shared_prefix": 1.0}, {"request_rate": 0.0}, {"tpot_target": -1.0}, {"prompt_spread": -0.1},
     {"ttft_target": float("nan")}],
)  # fmt: skip
def test_workloads_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError):
        Workload(**wrong)  # type: ignore[arg-type]
