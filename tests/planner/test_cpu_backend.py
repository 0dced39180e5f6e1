"""What vLLM's CPU backend decides by itself: blocks, batches, what is refused, how much is free."""

from __future__ import annotations

import pytest
from launches import bundled, plan
from msgspec.structs import replace

from hardware_db import find_rig
from model_cards.caches import RecurrentState, StateKind
from planner import EngineConfig, PlanError, plan_memory
from planner.engine.cpu import cpu_state, kv_cache_space
from planner.engine.device import device_facts
from planner.engine.refusal import RefusalKind

GIB = 2**30
RELEASE = "0.32.0"
SMALL = "Qwen/Qwen3-0.6B"
LATENT = "deepseek-ai/DeepSeek-V2-Lite-Chat"
PLAIN, TILES, DOTS = "cpu:64GiB", "cpu:64GiB,amx_tile", "cpu:64GiB,avx512_bf16"


def test_blocks_and_batches() -> None:
    memory = plan(SMALL, PLAIN, RELEASE, max_model_len=8192)
    assert (memory.block_size, memory.config.max_num_seqs) == (128, 128)
    assert memory.config.in_flight_tokens == memory.config.max_num_batched_tokens == 2048
    assert memory.config.cudagraph_sizes == ()
    assert plan(SMALL, PLAIN, RELEASE, max_model_len=8192, block_size=64).block_size == 64


def test_blocks_that_the_kernels_cannot_take_are_refused() -> None:
    refusal = plan(SMALL, PLAIN, RELEASE, max_model_len=8192, block_size=16).starts.refusal
    assert refusal is not None
    assert refusal.kind is RefusalKind.KV_LAYOUT
    assert "CPU_ATTN" in refusal.reason


def test_what_does_not_fit_is_said_of_the_machine() -> None:
    """61 GiB of weights; there is no GPU to speak of."""
    starts = plan("Qwen/Qwen3-32B", "cpu:32GiB", RELEASE, max_model_len=8192).starts
    assert starts.reason.endswith(" GiB too much on this machine")


def test_latent_attention_without_tiles_takes_whole_prompts() -> None:
    settings = {"max_model_len": 8192, "max_num_batched_tokens": 512, "block_size": 64}
    reference = plan(LATENT, PLAIN, RELEASE, **settings)
    assert reference.config.max_num_batched_tokens == 8192
    assert (reference.block_size, reference.config.prefix_caching) == (16, False)
    tiled = plan(LATENT, TILES, RELEASE, **settings)
    assert tiled.config.max_num_batched_tokens == 512
    assert (tiled.block_size, tiled.config.prefix_caching) == (64, True)
    assert plan(LATENT, PLAIN, RELEASE, max_model_len=64).config.max_num_batched_tokens == 2048


def test_states_are_fp32_for_bf16_dot_products() -> None:
    delta, conv = RecurrentState(StateKind.GDN), RecurrentState(StateKind.SHORT_CONV)
    plain, dots = (device_facts(find_rig(text).smallest.gpu) for text in (PLAIN, DOTS))
    assert cpu_state(delta, plain).dtype is None
    assert cpu_state(delta, dots).dtype == "float32"
    assert cpu_state(replace(delta, dtype="bfloat16"), dots).dtype == "bfloat16"
    assert cpu_state(conv, dots).dtype is None


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("deepseek-ai/DeepSeek-V3.2", {}),
        (SMALL, {"kv_cache_dtype": "int8_per_token_head"}),
    ],
)
def test_what_has_no_kernels(model: str, settings: dict[str, str]) -> None:
    refusal = plan(model, "cpu:2000GiB", RELEASE, max_model_len=4096, **settings).starts.refusal
    assert refusal is not None
    assert refusal.kind is RefusalKind.BACKEND


@pytest.mark.parametrize(
    ("text", "size"), [(None, None), ("", None), ("0", 0), ("3", 3 * GIB), (" 12 ", 12 * GIB)]
)
def test_the_environment_sets_the_size_of_the_cache(text: str | None, size: int | None) -> None:
    assert kv_cache_space({} if text is None else {"VLLM_CPU_KVCACHE_SPACE": text}) == size


@pytest.mark.parametrize("text", ["1.5", "4G", "-1", "²"])
def test_only_in_whole_gib(text: str) -> None:
    with pytest.raises(PlanError, match="VLLM_CPU_KVCACHE_SPACE"):
        kv_cache_space({"VLLM_CPU_KVCACHE_SPACE": text})


def test_it_wins_over_the_flag_and_leaves_a_gpu_alone() -> None:
    given = EngineConfig(max_model_len=8192, kv_cache_memory_bytes=2 * GIB)
    environ = {"VLLM_CPU_KVCACHE_SPACE": "5"}

    def pool(rig: str) -> float:
        memory = plan_memory(bundled(SMALL), find_rig(rig), given, environ=environ, vllm=RELEASE)
        return memory.tightest.kv_cache.value

    assert (pool(PLAIN), pool("4090")) == (5 * GIB, 2 * GIB)


def test_a_cache_of_given_size_needs_no_more_than_itself_and_the_model() -> None:
    """92 % of the memory need not be free then, as vLLM asks for otherwise."""
    rig = find_rig(PLAIN)
    busy = replace(rig, devices=(replace(rig.devices[0], free_bytes=20 * GIB),))

    def starts(**settings: int) -> bool:
        given = EngineConfig(max_model_len=8192, **settings)
        return plan_memory(bundled(SMALL), busy, given, vllm=RELEASE).starts.ok

    assert not starts()
    assert starts(kv_cache_memory_bytes=8 * GIB)
    assert not starts(kv_cache_memory_bytes=19 * GIB)
