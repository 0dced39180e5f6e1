"""A sweep gives for every setting what a plan of it alone gives, and is quick."""

from __future__ import annotations

from itertools import product
from random import Random
from time import perf_counter
from typing import Any

import pytest
from launches import bundled

from hardware_db import find_rig
from planner import EngineConfig, plan_memory, sweep_memory
from planner.engine_config import SpeculativeConfig
from planner.memory.verdict import Answer

LENGTHS = [1000, 4096, 32768, 40000]
SEQS = [None, 1, 16, 300]
TOKENS = [None, 2048, 5000]
DTYPES = ["auto", "fp8"]
NGRAM = SpeculativeConfig("ngram", 3)
EAGLE = SpeculativeConfig("eagle3", 3, "SpecForge/gpt-oss-20B-eagle3")
SHARES = [None, 0.5, 0.85, 0.95, 1.0]


@pytest.mark.parametrize(
    ("model", "rig", "given"),
    [("Qwen/Qwen3-8B", "4090", {"speculative_config": NGRAM}),
     ("openai/gpt-oss-20b", "h100", {"speculative_config": EAGLE}),
     ("Qwen/Qwen3-8B", "4090", {}),
     ("google/gemma-3-27b-it", "a100-sxm4-80gb", {}),
     ("nvidia/Qwen3.6-35B-A3B-NVFP4", "5090", {}),
     ("Qwen/Qwen3-8B", "4090", {"kv_cache_memory_bytes": 5 * 2**30}),
     ("Qwen/Qwen3-8B", "4090", {"num_gpu_blocks_override": 700}),
     ("openai/gpt-oss-20b", "h100", {}),
     ("Qwen/Qwen3-8B", "4060", {"enable_chunked_prefill": False}),
     ("meta-llama/Llama-3.3-70B-Instruct", "4xa100-sxm4-80gb",
      {"tensor_parallel_size": 2, "pipeline_parallel_size": 2})],
)  # fmt: skip
def test_every_setting_is_what_its_plan_says(model: str, rig: str, given: dict[str, Any]) -> None:
    card, hardware, config = bundled(model), find_rig(rig), EngineConfig(**given)
    given_draft = config.speculative_config.model if config.speculative_config else None
    draft = bundled(given_draft) if given_draft is not None else None
    sweep = sweep_memory(
        card, hardware, config,
        max_model_len=LENGTHS, max_num_seqs=SEQS, max_num_batched_tokens=TOKENS,
        kv_cache_dtype=DTYPES, gpu_memory_utilization=SHARES, draft=draft,
    )  # fmt: skip
    axes = [list(enumerate(axis)) for axis in (DTYPES, SEQS, TOKENS, SHARES, LENGTHS)]
    for point in Random(7).sample(list(product(*axes)), 40):
        at = tuple(index for index, _ in point)
        dtype, seqs, tokens, share, length = (value for _, value in point)
        memory = plan_memory(
            card,
            hardware,
            EngineConfig(
                **given,
                kv_cache_dtype=dtype,  # type: ignore[arg-type]
                max_num_seqs=seqs,  # type: ignore[arg-type]
                max_num_batched_tokens=tokens,  # type: ignore[arg-type]
                gpu_memory_utilization=share,  # type: ignore[arg-type]
                max_model_len=length,  # type: ignore[arg-type]
            ),
            draft=draft,
        )
        if memory.starts.breaks_a_rule:
            assert not sweep.fits[at]
            continue
        plan = memory.kv_cache
        assert sweep.num_blocks[at] == plan.num_blocks
        assert sweep.kv_tokens[at] == plan.tokens
        assert sweep.max_concurrency[at] == pytest.approx(plan.concurrency)
        held, near = memory.max_concurrency, 1e-6 if share == SHARES[0] else 0.01
        assert sweep.max_concurrency_low[at] == pytest.approx(held.low, rel=near)
        assert sweep.max_concurrency_high[at] == pytest.approx(held.high, rel=near)
        assert sweep.kv_cache_bytes[at] == pytest.approx(memory.tightest.kv_cache.value, abs=8)
        assert bool(sweep.fits_surely[at]) == (memory.starts.answer is Answer.YES)
        assert bool(sweep.fits_perhaps[at]) == (memory.starts.answer is not Answer.NO)
        assert bool(sweep.fits[at]) == (memory.starts.chance_of_refusal < 0.5)


def test_requests_of_full_length() -> None:
    sweep = sweep_memory(bundled("Qwen/Qwen3-8B"), find_rig("4090"), max_model_len=[1024, 16384])
    held = sweep.max_concurrency[0, 0, 0, 0]
    serves = sweep.serves([1, int(held[1]), int(held[1]) + 1])[0, 0, 0, 0]
    assert serves.tolist() == [[True, True, True], [True, held[1] >= 1, False]]


def test_a_hundred_thousand_settings_take_a_blink() -> None:
    """0.2 s on an idle core; the bound leaves room for a busy machine."""
    card, rig = bundled("Qwen/Qwen3-8B"), find_rig("h100")
    start = perf_counter()
    sweep = sweep_memory(
        card, rig,
        max_model_len=range(1024, 40961, 1024),
        max_num_seqs=[16, 32, 64, 128, 256, 512, 768, 1024],
        max_num_batched_tokens=[2048, 4096, 8192, 16384],
        kv_cache_dtype=DTYPES, gpu_memory_utilization=[0.8, 0.85, 0.9, 0.92, 0.95],
    )  # fmt: skip
    serves = sweep.serves([1, 2, 4, 8, 16, 32, 64, 128])
    assert serves.size == 102_400
    assert perf_counter() - start < 1
