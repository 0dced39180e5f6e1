"""KV cache plans worked out by hand: the classic mistakes of calculators."""

from __future__ import annotations

import pytest
from launches import bundled, plan

from model_cards.quantization.awq import Awq
from planner import EngineConfig, plan_memory
from planner.engine_config import SpeculativeConfig
from planner.memory.plan import MemoryPlan, Refused


def blocks(memory: MemoryPlan) -> int:
    return memory.kv_cache.bytes_per_block[0]


def test_a_dense_model() -> None:
    """Llama 3.1 8B: 32 layers x (k and v) x 8 heads x 128 x 2 B = 131,072 B a token."""
    memory = plan("meta-llama/Llama-3.1-8B-Instruct", "h100", max_model_len=8192)
    assert memory.block_size == 16
    assert blocks(memory) == 16 * 131_072


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_latent_attention_is_whole_on_every_rank(ranks: int) -> None:
    """DeepSeek V3: 61 layers x (512 + 64) x 2 B = 70,272 B a token, however many ranks."""
    memory = plan(
        "deepseek-ai/DeepSeek-V3", "8xh200", tensor_parallel_size=ranks, max_model_len=8192
    )
    assert blocks(memory) == memory.block_size * 70_272


def test_sliding_layers_stop_growing() -> None:
    """Gemma 3 27B: 52 of 62 layers keep 1,024 tokens and what is in flight, 10 keep all.

    Six groups of equal size share the pool: 62 layers, of which 10 are full, are dealt out as
    10 full and 6 groups of sliding ones, 8 or 9 in each, padded to 10.
    """
    memory = plan("google/gemma-3-27b-it", "h100", max_model_len=131072)
    sizes = sorted(len(group.layers) for group in memory.kv_cache.groups)
    assert sum(sizes) == 62
    assert max(sizes) == 10
    in_flight = memory.config.in_flight_tokens
    assert in_flight == 2 * 8192  # the batch on the GPU and the one scheduled meanwhile
    full = 131072 // 16
    sliding = -(-(1024 - 1 + in_flight) // 16) + 1  # the window may begin inside a block
    assert memory.kv_cache.blocks_per_request == full + (len(sizes) - 1) * sliding
    # 16 KV heads x (k and v) x 128 x 2 B x 16 tokens, for ten layers.
    assert blocks(memory) == 10 * 16 * 2 * 128 * 2 * 16


def test_older_releases_printed_the_blocks_dealt_out_evenly() -> None:
    """A published log of Gemma 3 27B: 15,997 blocks // 7 groups x 16 = 36,560 tokens."""
    settings = {"num_gpu_blocks_override": 15_997, "max_model_len": 131072}
    older = plan("google/gemma-3-27b-it", "2xh100", "0.20.0", **settings)
    assert len(older.kv_cache.groups) == 7
    assert older.kv_tokens.value == 36_560
    newer = plan("google/gemma-3-27b-it", "2xh100", "0.20.2", **settings)
    assert newer.kv_tokens.value == int(newer.max_concurrency.value * 131072)


def test_one_more_full_layer_costs_more_than_its_own_bytes() -> None:
    """gpt-oss-20b: 12 full and 12 sliding layers are two groups of 12.

    An EAGLE-3 head of one full layer makes 13 full ones: both groups become 13 pages wide, and
    12 / 13 of the blocks are left (7.7 % fewer).
    """
    settings = {"max_model_len": 8192, "kv_cache_memory_bytes": 20 * 2**30}
    alone = plan("openai/gpt-oss-20b", "h100", **settings)
    assert sorted(len(group.layers) for group in alone.kv_cache.groups) == [12, 12]
    drafted = plan_memory(
        bundled("openai/gpt-oss-20b"),
        alone.rig,
        EngineConfig(
            **settings,  # type: ignore[arg-type]
            speculative_config=SpeculativeConfig("eagle3", 3, "RedHatAI/gpt-oss-20b-speculator"),
        ),
        draft=bundled("SpecForge/gpt-oss-20B-eagle3"),
        vllm=alone.release,
    )
    assert sorted(len(group.layers) for group in drafted.kv_cache.groups) == [12, 13]
    assert blocks(drafted) * 12 == blocks(alone) * 13
    assert drafted.kv_cache.num_blocks / alone.kv_cache.num_blocks == pytest.approx(12 / 13, 1e-3)


def test_kv_heads_are_replicated_where_ranks_outnumber_them() -> None:
    """Llama 3.3 70B: 8 KV heads; on 16 ranks each holds one, as on 8."""
    on_8 = plan("meta-llama/Llama-3.3-70B-Instruct", "8xh100", tensor_parallel_size=8)
    on_16 = plan("meta-llama/Llama-3.3-70B-Instruct", "2x8xh100", tensor_parallel_size=16)
    assert blocks(on_16) == blocks(on_8) == 16 * 80 * 2 * 128 * 2


def test_ranks_that_share_a_head_can_share_its_tokens() -> None:
    """Decode context parallelism: two ranks keep every other token, and twice as many fit."""
    settings = {"tensor_parallel_size": 16, "kv_cache_memory_bytes": 20 * 2**30}
    whole = plan("meta-llama/Llama-3.3-70B-Instruct", "2x8xh100", **settings)
    split = plan(
        "meta-llama/Llama-3.3-70B-Instruct",
        "2x8xh100",
        decode_context_parallel_size=2,
        **settings,
    )
    assert split.kv_cache.num_blocks == whole.kv_cache.num_blocks
    assert split.kv_tokens.value == 2 * whole.kv_tokens.value


def test_heads_that_do_not_divide_are_refused() -> None:
    """Qwen2.5 7B has 28 heads: they divide by 4 and 7, not by 8."""
    with pytest.raises(Refused, match="28") as refused:
        plan("Qwen/Qwen2.5-7B-Instruct", "8xh100", tensor_parallel_size=8)
    assert refused.value.refusals[0].kind.value == "heads"
    assert plan("Qwen/Qwen2.5-7B-Instruct", "4xh100", tensor_parallel_size=4).starts.ok


def test_awq_is_not_four_bits() -> None:
    """4 bits, a scale of 16 bits and a zero of 4 for every 128: 4.15625 bits a weight."""
    weights = 4096 * 4096
    stored = Awq(4, 128, zero_point=True).bytes(4096, (4096,), 2)
    assert stored * 8 / weights == 4 + (16 + 4) / 128


@pytest.mark.parametrize(
    ("dtype", "per_head_token"),
    [
        ("auto", 2 * 128 * 2),
        ("fp8", 2 * 128),
        ("int8_per_token_head", 2 * 128 + 2 * 4),  # an fp32 scale for k, one for v
        ("int4_per_token_head", 128 + 2 * 4),
        ("nvfp4", 2 * (64 + 8)),  # an fp8 scale for every 16
    ],
)
def test_bytes_of_a_cached_token(dtype: str, per_head_token: int) -> None:
    memory = plan("Qwen/Qwen3-8B", "h100", kv_cache_dtype=dtype, max_model_len=8192)
    assert blocks(memory) == memory.block_size * 36 * 8 * per_head_token


def test_packed_caches_leave_the_outer_layers_as_they_are() -> None:
    """TurboQuant k8v4: 128 B of keys, 64 of values and 4 of scale and zero; two layers at each
    end stay in 16 bit, and a block has 32 tokens."""
    memory = plan(
        "meta-llama/Llama-3.1-8B-Instruct",
        "h100",
        kv_cache_dtype="turboquant_k8v4",
        max_model_len=8192,
    )
    packed, native = 128 + 64 + 4, 2 * 128 * 2
    assert blocks(memory) == 32 * 8 * (28 * packed + 4 * native)
