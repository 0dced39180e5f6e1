"""Pools that public start-up logs print, of launches that no constant is fitted to: what experts,
communication and compiling take beside the weights."""

from __future__ import annotations

from typing import Any

import pytest
from launches import bundled

from hardware_db import find_rig
from planner import EngineConfig, MemoryPlan, plan_memory
from planner.memory.fused_all_reduce import fused_all_reduce_bytes

GIB = 2**30
MIB = 2**20


def plan(model: str, rig: str, release: str, settings: dict[str, Any]) -> MemoryPlan:
    return plan_memory(bundled(model), find_rig(rig), EngineConfig(**settings), vllm=release)


# kaitakuai/experiments@276b60d: 2026-04/kimi-k25-int4-4xb200/benchmark-detailed.md and
# 2026-04/minimax-m27-fp8-4xa100/README.md, of builds whose default is 32,768 batched tokens
# (2026-05/kimi-k26-int4-2x8xh100/logs/vllm.log prints it).
KIMI: dict[str, Any] = {
    "tensor_parallel_size": 4, "max_model_len": 262144, "max_num_seqs": 128,
    "max_num_batched_tokens": 32768, "mm_encoder_tp_mode": "data",
}  # fmt: skip
MINIMAX: dict[str, Any] = {
    "tensor_parallel_size": 4, "max_model_len": 131072, "max_num_seqs": 128,
    "max_num_batched_tokens": 32768, "gpu_memory_utilization": 0.92,
}  # fmt: skip
# A guide to Qwen3-235B-A22B on four cards, 2026-08-21: 27.85 GiB, 55.19 of weights.
QWEN: dict[str, Any] = {
    "tensor_parallel_size": 4, "max_model_len": 32768, "max_num_seqs": 32,
    "gpu_memory_utilization": 0.9,
}  # fmt: skip
PRINTED: list[tuple[str, str, str, dict[str, Any], float]] = [
    ("moonshotai/Kimi-K2.5", "4xb200", "0.15.1",
     {**KIMI, "gpu_memory_utilization": 0.95, "enforce_eager": True}, 20.58),
    ("moonshotai/Kimi-K2.5", "4xb200", "0.15.1",
     {**KIMI, "gpu_memory_utilization": 0.95}, 20.89),
    ("moonshotai/Kimi-K2.5", "4xb200", "0.15.1",
     {**KIMI, "gpu_memory_utilization": 0.9, "enforce_eager": True}, 11.66),
    ("MiniMaxAI/MiniMax-M2.7", "4xa100-80g", "0.19.0", MINIMAX, 13.66),
    ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "4xrtx-pro-6000-blackwell", "0.28.0", QWEN, 27.85),
]  # fmt: skip


@pytest.mark.parametrize(("model", "rig", "release", "settings", "printed"), PRINTED)
def test_pools_of_large_mixtures(
    model: str, rig: str, release: str, settings: dict[str, Any], printed: float
) -> None:
    pool = plan(model, rig, release, settings).tightest.kv_cache.times(1 / GIB)
    assert pool.value == pytest.approx(printed, rel=0.03)
    assert pool.low < printed < pool.high


def test_marlin_has_one_wide_buffer_of_its_own_until_experts_share_theirs() -> None:
    """`fused_marlin_moe`: tokens x 8 experts x (7168 + 2048 / 8) features of 2 bytes on one of
    eight ranks, gone after the layer. Since 0.23.0 `workspace_shapes` has two as wide as the
    hidden size: kept, so that the other passes come on top."""
    settings = {**KIMI, "tensor_parallel_size": 8}
    tokens = settings["max_num_batched_tokens"]
    apart = 2 * tokens * 8 * (7168 + 2048 // 8)
    shared = 2 * tokens * 8 * 2 * 7168
    before = plan("moonshotai/Kimi-K2.5", "8xh200", "0.22.1", settings).ranks[0].activation.value
    since = plan("moonshotai/Kimi-K2.5", "8xh200", "0.23.0", settings).ranks[0].activation.value
    assert since - before == pytest.approx(shared - apart, rel=0.05)


@pytest.mark.parametrize(
    ("rig", "release", "settings", "mib"),
    [  # four buffers of the largest message from each rank
        ("2xh100-sxm", "0.19.0", {}, 4 * 2 * 64),
        ("4xh100-sxm", "0.19.0", {}, 4 * 4 * 2),
        ("4xb200", "0.19.0", {}, 4 * 4 * 32),
        ("2xh100-sxm", "0.19.0", {"max_num_batched_tokens": 1024}, 4 * 2 * 8),  # a batch is less
        ("2xh100-sxm", "0.19.0", {"enforce_eager": True}, 0),
        ("2xh100-sxm", "0.16.0", {}, 0),
        ("2xa100-80g", "0.19.0", {}, 0),
    ],
)
def test_fused_all_reduces_have_a_workspace(
    rig: str, release: str, settings: dict[str, Any], mib: int
) -> None:
    ranks = find_rig(rig).gpu_count
    memory = plan(
        "meta-llama/Llama-3.1-8B-Instruct", rig, release,
        {"tensor_parallel_size": ranks, "max_model_len": 8192, **settings},
    )  # fmt: skip
    taken = fused_all_reduce_bytes(memory.card, memory.config, memory.device, memory.release)
    assert taken == mib * MIB


def test_stages_do_not_fuse_all_reduces_before_0_21() -> None:
    settings = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "max_model_len": 8192}
    for release, mib in (("0.19.0", 0), ("0.21.0", 4 * 2 * 64)):
        memory = plan("meta-llama/Llama-3.1-8B-Instruct", "4xh100-sxm", release, settings)
        taken = fused_all_reduce_bytes(memory.card, memory.config, memory.device, memory.release)
        assert taken == mib * MIB
