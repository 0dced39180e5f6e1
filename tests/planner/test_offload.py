"""Weights in host memory, against vLLM 0.33.0's parameters counted by its offloaders' rules.

`tests/data/offloaded.jsonl` was made from vLLM's own model classes on the meta device: which
parameters its offloader takes while the model is built, and what they come to after loading.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launches import bundled, plan

from planner import EngineConfig, PlanError
from planner.quantity import Basis
from planner.speed.serving import predict_speed
from planner.speed.step import MissingFact
from planner.workload import Workload

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "offloaded.jsonl").read_text().splitlines()
]
GPUS = {"RTX4090-24": "4090", "H100-80": "h100-sxm"}
# A parameter whose place in vLLM's order differs from ours may fall on the other side of the limit.
LOOSE = {"google/gemma-4-26B-A4B-it", "openai/gpt-oss-20b"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} {row['engine']}")
def test_as_vllm_s_offloaders_count(row: dict[str, Any]) -> None:
    rig = f"{row['tp']}x{GPUS[row['gpu']]}"
    memory = plan(row["model"], rig, tensor_parallel_size=row["tp"], **row["engine"])
    parts = memory.ranks[0].parts
    near = 0.03 if row["model"] in LOOSE else 0.0
    assert parts.offloaded == pytest.approx(row["host"], rel=near)
    assert parts.fetched == pytest.approx(row["slots"], rel=near)


def test_whole_parameters_until_the_limit() -> None:
    """Layers of Qwen3-8B as they come, norms of 128 and 4096 among them: 8 whole ones are short of
    3 GiB, and so are the attention and the norms of q and k of the ninth; its gate and up together,
    2 x 12288 x 4096, go over."""
    attention = 2 * (4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 2 * 128)
    gate_up, down, norms = 2 * 2 * 12288 * 4096, 2 * 12288 * 4096, 2 * 2 * 4096
    layer = attention + gate_up + down + norms
    assert 8 * layer + attention < 3 * 2**30 < 8 * layer + attention + gate_up
    parts = plan(cpu_offload_gb=3).ranks[0].parts
    assert parts.offloaded == 8 * layer + attention + gate_up


def test_what_is_in_host_memory_makes_room_for_the_cache() -> None:
    usual, offloaded = plan(), plan(cpu_offload_gb=3)
    moved = offloaded.ranks[0].parts.offloaded
    gained = offloaded.ranks[0].kv_cache.value - usual.ranks[0].kv_cache.value
    assert gained == pytest.approx(moved)
    weights = offloaded.ranks[0].weights
    assert weights.basis is Basis.CALIBRATED
    assert weights.low < weights.value < weights.high


def test_the_embedding_stays_on_the_gpu() -> None:
    """However much is allowed: of a tied model, all but the embedding and the last norm go."""
    card = bundled("Qwen/Qwen3-0.6B")
    parts = plan(card, cpu_offload_gb=100).ranks[0].parts
    assert parts.total == parts.embedding + parts.rotary + parts.buffers + 2 * card.hidden_size


def test_what_is_in_host_memory_is_read_over_pcie() -> None:
    """At no more than the 32 GB/s of PCIe 4.0 x16; the basis says that it was not measured."""
    workload, offloaded = Workload(512, 512, 1), plan(cpu_offload_gb=3)
    usual, slow = predict_speed(plan(), workload), predict_speed(offloaded, workload)
    moved = offloaded.ranks[0].parts.offloaded
    assert slow.tpot.low >= 0.999 * moved / 32e9
    assert slow.tpot.value > usual.tpot.value + 0.9 * moved / 32e9
    assert slow.per_user.high <= slow.ceiling_per_user
    assert slow.tpot.basis is Basis.ESTIMATED
    # Fetched ahead, layers on the GPU run meanwhile.
    ahead = plan(offload_group_size=4)
    behind = ahead.ranks[0].parts.offloaded
    fetched = predict_speed(ahead, workload)
    assert behind / 32e9 < fetched.tpot.value < behind / 32e9 / 0.8 + usual.tpot.value


def test_no_speed_is_made_up() -> None:
    """Of a card whose link to the host is not known."""
    with pytest.raises(MissingFact, match="host memory"):
        predict_speed(plan(rig="custom:24GiB@1008,cc=8.9", cpu_offload_gb=3), Workload(512, 512, 1))


@pytest.mark.parametrize(
    "settings",
    [{"cpu_offload_gb": -1}, {"offload_group_size": -1},
     {"offload_group_size": 2, "offload_num_in_group": 3}, {"offload_prefetch_step": 0}],
)  # fmt: skip
def test_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        EngineConfig(**settings)
