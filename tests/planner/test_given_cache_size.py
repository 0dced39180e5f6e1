"""A KV cache whose size is given: beside the model there must be room for it, and vLLM never looks.

By hand, for Qwen3-8B on an RTX 4090 with vLLM 0.33.0: a token takes 36 layers x 2 x 8 heads x 128 x
2 bytes = 147,456 bytes, a block of 16 of them 2.25 MiB; 40,960 tokens 2,560 blocks, with the null
block 2,561 = 5.63 GiB.
"""

from __future__ import annotations

import pytest

from hardware_db import find_rig
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig, MemoryPlan, plan_memory
from planner.command.parse import read_command
from planner.diagnosis.check import Check, check_command
from planner.launch.fixes import fixes
from planner.launch.log import read_log
from planner.memory.sweep import sweep_memory
from planner.memory.verdict import Answer

GIB, MIB = 2**30, 2**20
MODEL = "Qwen/Qwen3-8B"
BLOCK = 36 * 2 * 8 * 128 * 2 * 16


def checked(options: str, release: str = "0.33.0", gpu: str = "4090") -> Check:
    text = f"vllm serve {MODEL} --max-model-len 40960 {options}"
    return check_command(read_command([text], release), find_rig(gpu), offline=True)


def taken(memory: MemoryPlan) -> float:
    """By the terms that the plan shows, without the cache."""
    rank = memory.tightest
    parts = (rank.weights, rank.non_torch, rank.cuda_graphs)
    return sum(part.value for part in parts) + rank.buffers.total


@pytest.mark.parametrize("release", ["0.33.0", "0.16.0", "0.11.0"])
@pytest.mark.parametrize("option", ["--kv-cache-memory-bytes {size}",
                                    "--num-gpu-blocks-override {blocks}"])  # fmt: skip
def test_what_does_not_fit_beside_the_model(option: str, release: str) -> None:
    """23.63 GiB, 15.27 of them weights: 15 GiB more cannot be had, 6 can."""
    large, small = (
        checked(option.format(size=size, blocks=size // BLOCK), release)
        for size in (15 * GIB, 6 * GIB)
    )
    assert large.memory is not None
    assert small.memory is not None
    assert large.answer is Answer.NO
    assert small.answer is Answer.YES
    (said,) = [each for each in large.findings if each.code == "free_memory"]
    assert said.fix == "vLLM says: torch.OutOfMemoryError: CUDA out of memory."
    check = large.memory.given_size_check
    assert check is not None
    cache = 15 * GIB // BLOCK * BLOCK if "blocks" in option else 15 * GIB
    assert check.asked.value == pytest.approx(taken(large.memory) + cache)


def test_what_is_too_much_under_load() -> None:
    """Of what is free, 6 GiB leave less than a full batch takes; 5.7 do not."""
    codes = [
        {finding.code for finding in checked(f"--kv-cache-memory-bytes {size}").findings}
        for size in (6 * GIB, 5400 * MIB)
    ]
    assert "cache_size" in codes[0]
    assert "cache_size" not in codes[1]


@pytest.mark.parametrize(
    ("option", "change"),
    [
        ("--kv-cache-memory-bytes 1G", f"--kv-cache-memory-bytes {5763 * MIB}"),
        ("--kv-cache-memory-bytes 15G", f"--kv-cache-memory-bytes {5763 * MIB}"),
        ("--num-gpu-blocks-override 100", "--num-gpu-blocks-override 2561"),
        ("--num-gpu-blocks-override 9000", "--num-gpu-blocks-override 2561"),
    ],
)
def test_remedies_change_the_size_itself(option: str, change: str) -> None:
    """2,561 blocks are 5,762.25 MiB."""
    changes = [remedy.change for remedy in checked(option).remedies]
    assert change in changes
    assert not any("--gpu-memory-utilization" in each for each in changes)


def test_a_share_of_a_larger_gpu_is_left_for_a_batch() -> None:
    """What is surely free, without what a full batch takes."""
    found = checked("--kv-cache-memory-bytes 70G", gpu="h100-sxm")
    assert found.answer is Answer.NO
    (remedy,) = [each for each in found.remedies if "--kv-cache" in each.change]
    memory = remedy.memory
    assert memory.given_size_check is not None
    assert memory.given_size_check.margin.low >= memory.tightest.activation.high
    assert memory.given_size_check.margin.low - memory.tightest.activation.high < 2 * MIB


def test_a_sweep_agrees() -> None:
    card, rig = open_bundled(MODEL), find_rig("4090")
    assert card is not None
    for size in (15 * GIB, 6 * GIB):
        config = EngineConfig(kv_cache_memory_bytes=size)
        shares = (0.5, 0.92, 0.99)
        swept = sweep_memory(
            card, rig, config, max_model_len=[40960], gpu_memory_utilization=shares
        )
        for place, share in enumerate(shares):
            given = EngineConfig(
                max_model_len=40960, kv_cache_memory_bytes=size, gpu_memory_utilization=share
            )
            planned = plan_memory(card, rig, given)
            assert swept.fits_surely[0, 0, 0, place, 0] == planned.starts.ok, (size, share)


def test_the_plan_of_a_log_runs_out_as_the_launch_did() -> None:
    """It wanted 2 GiB with 0.5 free: 1.5 GiB were missing, so the cache must be smaller."""
    log = (
        f"(APIServer pid=10) INFO 01-01 00:00:01 [api_utils.py:286] non-default args: {{'model': "
        f"'{MODEL}', 'max_model_len': 8192, 'kv_cache_memory_bytes': {6 * GIB}}}\n"
        "(EngineCore pid=11) INFO 01-01 00:00:05 [core.py:1] Initializing a V1 LLM engine "
        f"(v0.33.0) with config: model='{MODEL}', max_seq_len=8192, tensor_parallel_size=1,\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 23.63 GiB of which 512.00 MiB is free.\n"
    )
    found = fixes(read_log(log.splitlines())[0], find_rig("4090"))
    assert found.check.answer is Answer.NO
    assert found.check.memory is not None
    check = found.check.memory.given_size_check
    assert check is not None
    assert check.margin.value == pytest.approx(-1.5 * GIB, abs=MIB)
    changes = [remedy.change for remedy in found.remedies]
    assert changes
    assert changes[0].startswith("--kv-cache-memory-bytes ")
