"""Expert load balancing: what its tables take, counted by hand, and when vLLM refuses it."""

from __future__ import annotations

from typing import Any

import pytest
from launches import bundled, plan

from hardware_db import find_rig
from planner import EngineConfig, plan_memory
from planner.engine_config import EplbConfig
from planner.memory.verdict import Answer

QWEN = "Qwen/Qwen3-30B-A3B"
SPREAD: dict[str, Any] = {"enable_expert_parallel": True, "enable_eplb": True}


def buffers(model: str, rig: str, **settings: Any) -> int:
    return plan(model, rig, tensor_parallel_size=4, **settings).ranks[0].buffers.eplb


def test_tables_and_room_for_one_layer() -> None:
    """48 layers of 128 experts and 16 copies, 36 of them on each of 4 ranks.

    int64: where each of the 144 is; 1024 places, the copies and the last load of each of the 128.
    int32: the load of the 144 now and in 1000 steps. An expert is 3 matrices of 2048 x 768.
    """
    tables = 48 * (8 * 144 + 8 * 128 * (1024 + 1 + 1) + 4 * 144 * (1 + 1000))
    layer = 36 * 3 * 2048 * 768 * 2
    settings = {**SPREAD, "eplb_config": EplbConfig(16)}
    assert buffers(QWEN, "4xh100-sxm", **settings) == tables + layer
    shorter = {**SPREAD, "eplb_config": EplbConfig(16, window_size=100)}
    assert tables + layer - buffers(QWEN, "4xh100-sxm", **shorter) == 48 * 4 * 144 * 900


def test_nothing_without_it() -> None:
    assert buffers(QWEN, "4xh100-sxm", enable_expert_parallel=True) == 0


def test_copies_are_weights_of_every_rank() -> None:
    """16 copies over 4 ranks: 4 experts of 3 x 2048 x 768 in each of 48 layers, and their map."""
    without = plan(QWEN, "4xh100-sxm", tensor_parallel_size=4, **SPREAD)
    with_copies = plan(
        QWEN, "4xh100-sxm", tensor_parallel_size=4, **SPREAD, eplb_config=EplbConfig(16)
    )
    more = with_copies.ranks[0].parts.total - without.ranks[0].parts.total
    assert more == 48 * (4 * 3 * 2048 * 768 * 2 + 16 * 4)


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        (QWEN, {"enable_eplb": True}, "needs --enable-expert-parallel"),
        (QWEN, {**SPREAD, "tensor_parallel_size": 1}, "needs tensor or data parallelism"),
        (QWEN, {"eplb_config": EplbConfig(4)}, "needs --enable-eplb"),
        (QWEN, {**SPREAD, "eplb_config": EplbConfig(3)}, "cannot be spread evenly"),
        ("openai/gpt-oss-20b", SPREAD, "not supported for experts in mxfp4"),
        ("Qwen/Qwen3-8B", {"enable_expert_parallel": True}, "needs a model with experts"),
    ],
)
def test_what_vllm_refuses(model: str, settings: dict[str, Any], reason: str) -> None:
    config = EngineConfig(**{"tensor_parallel_size": 4, "max_model_len": 4096, **settings})
    memory = plan_memory(bundled(model), find_rig("4xh100-sxm"), config)
    assert memory.starts.answer is Answer.NO
    assert reason in memory.starts.reason.lower() or reason in memory.starts.reason
