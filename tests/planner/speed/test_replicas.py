"""Data-parallel replicas: apart where nothing is shared, in step where experts are."""

from __future__ import annotations

import pytest
from launches import plan

from planner import Workload, predict_speed
from planner.quantity import Basis
from planner.speed.constants import speed_constants
from planner.speed.load import LoadModel
from planner.speed.step import StepModel

DENSE, MOE = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"
CONSTANTS = speed_constants()


@pytest.mark.parametrize("users", [1, 8, 64])
def test_replicas_of_a_dense_model_are_so_many_engines(users: int) -> None:
    eight = plan(DENSE, "8xh100-sxm", data_parallel_size=8, max_model_len=16384)
    one = plan(DENSE, "h100-sxm", max_model_len=16384)
    together = predict_speed(eight, Workload(1024, 384, 8 * users))
    alone = predict_speed(one, Workload(1024, 384, users))
    assert together.per_user.value == pytest.approx(alone.per_user.value)
    assert together.total.value == pytest.approx(8 * alone.total.value)
    assert together.running == pytest.approx(8 * alone.running)


def test_two_users_keep_two_of_eight_replicas_busy() -> None:
    memory = plan(DENSE, "8xh100-sxm", data_parallel_size=8, max_model_len=16384)
    one, two = (predict_speed(memory, Workload(1024, 384, users)) for users in (1, 2))
    assert two.per_user.value == pytest.approx(one.per_user.value)
    assert two.total.value == pytest.approx(2 * one.total.value)
    assert one.total.value < one.per_user.value  # it waits for the first token


def test_what_shared_experts_exchange_by_hand() -> None:
    """48 layers of experts gather the tokens of all eight replicas and scatter their sums: 2 x 48
    collectives of eight ranks, and for each token seven others of 2,048 x 2 bytes, both ways."""
    memory = plan(MOE, "8xh100-sxm", data_parallel_size=8, enable_expert_parallel=True)
    step = StepModel.of(memory)
    once = CONSTANTS["all_reduce_seconds"]["nvlink"] * CONSTANTS["fused_factor"]
    grown = once * (1 + 2 * CONSTANTS["all_reduce_growth_per_doubling"])  # 2 to 8: two doublings
    start = 2 * 48 * grown + CONSTANTS["replica_sync_seconds"]
    assert step.communication_seconds(0) == pytest.approx(start)
    rate = 450e9 * CONSTANTS["link_efficiency"]["nvlink"]
    token = 2 * 48 * 7 * 2048 * 2 / rate
    assert step.communication_seconds(10) == pytest.approx(start + 10 * token)


def test_over_machines_the_network_carries_what_the_others_have() -> None:
    """Of 16 replicas, eight are elsewhere: their tokens come once, by eight network cards."""
    wide = plan(
        MOE, "2x8xh100-sxm", data_parallel_size=16, enable_expert_parallel=True, nnodes=2
    )  # fmt: skip
    step = StepModel.of(wide)
    fast = 450e9 * CONSTANTS["link_efficiency"]["nvlink"]
    slow = 1e9 * CONSTANTS["network_gbs"]
    token = 2 * 48 * 2048 * 2 * (15 / fast + 8 / 8 / slow)
    assert step.communication_seconds(1) - step.communication_seconds(0) == pytest.approx(token)
    # 96 collectives of 16 ranks (three doublings) that begin over the network.
    growth = 1 + 3 * CONSTANTS["all_reduce_growth_per_doubling"]
    start = 2 * 48 * CONSTANTS["network_seconds"] * growth + CONSTANTS["replica_sync_seconds"]
    assert step.communication_seconds(0) == pytest.approx(start)


def test_tensor_parallelism_inside_machines_needs_no_network() -> None:
    inside = plan(DENSE, "8xh100-sxm", tensor_parallel_size=8)
    two = plan(DENSE, "2x8xh100-sxm", tensor_parallel_size=8, data_parallel_size=2, nnodes=2)
    assert StepModel.of(two).communication_seconds(64) == pytest.approx(
        StepModel.of(inside).communication_seconds(64)
    )


def test_prompts_of_any_replica_hold_up_all() -> None:
    memory = plan(MOE, "8xh100-sxm", data_parallel_size=8, enable_expert_parallel=True)
    workload = Workload(1024, 384, 64)
    model = LoadModel.of(memory, workload)
    load = model.at(8)
    # By hand: each of eight reads prompts for a share b of its time, one of them for 1-(1-b)^8;
    # what the experts compute of it is spread over all eight in any case.
    token, alone = float(load.step.total), model.prompt_seconds(8)
    busy = 8 * alone / (384 * token + 8 * alone)
    matrices = model.step.demand.matrices
    flops = {each.part: each.flops_per_token for each in matrices}
    spread = flops["experts"] / sum(flops.values())
    longer = spread + (1 - spread) * (1 - (1 - busy) ** 8) / busy
    assert 1 < longer < 8
    assert load.requests == pytest.approx(8 / (384 * token + 8 * alone * longer))


def test_the_speed_of_shared_experts_is_an_estimate() -> None:
    """No published measurement is of such a launch."""
    memory = plan(MOE, "8xh100-sxm", data_parallel_size=8, enable_expert_parallel=True)
    speed = predict_speed(memory, Workload(1024, 384, 64))
    assert speed.tpot.basis is Basis.ESTIMATED
    assert speed.tpot.high / speed.tpot.value >= 1.8
