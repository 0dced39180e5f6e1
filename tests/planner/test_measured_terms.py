"""Pools that public start-up logs print, of launches that the fit leaves out, and what experts,
backends, communication and compiling take beside the weights.

The prior values of some constants were set with these logs in view (tools/fit_constants.py).
"""

from __future__ import annotations

from typing import Any

import pytest
from launches import bundled

from hardware_db import find_rig
from planner import EngineConfig, MemoryPlan, plan_memory
from planner.memory.activation import text_pass
from planner.memory.constants import constant
from planner.memory.fused_all_reduce import fused_all_reduce_bytes
from planner.memory.moe_workspaces import MoeWorkspaces, moe_workspaces

GIB = 2**30
MIB = 2**20


def plan(model: str, rig: str, release: str, settings: dict[str, Any]) -> MemoryPlan:
    return plan_memory(bundled(model), find_rig(rig), EngineConfig(**settings), vllm=release)


# kaitakuai/experiments@276b60d: 2026-04/kimi-k25-int4-4xb200/benchmark-detailed.md and README.md
# of 2026-04/minimax-m27-fp8-4xa100 and -4xrtxpro6000, of builds whose default is 32,768 batched
# tokens (2026-05/kimi-k26-int4-2x8xh100/logs/vllm.log prints it).
KIMI: dict[str, Any] = {
    "tensor_parallel_size": 4, "max_model_len": 262144, "max_num_seqs": 128,
    "max_num_batched_tokens": 32768, "mm_encoder_tp_mode": "data",
}  # fmt: skip
# With --attention-backend FLASHINFER_MLA vLLM does not import CUTLASS's module, as a plan has it.
CUTLASS = 0.125
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
     {**KIMI, "gpu_memory_utilization": 0.95, "enforce_eager": True}, 20.58 - CUTLASS),
    ("moonshotai/Kimi-K2.5", "4xb200", "0.15.1",
     {**KIMI, "gpu_memory_utilization": 0.95}, 20.89 - CUTLASS),
    ("moonshotai/Kimi-K2.5", "4xb200", "0.15.1",
     {**KIMI, "gpu_memory_utilization": 0.9, "enforce_eager": True}, 11.66 - CUTLASS),
    ("MiniMaxAI/MiniMax-M2.7", "4xa100-80g", "0.19.0", MINIMAX, 13.66),
    ("MiniMaxAI/MiniMax-M2.7", "4xrtx-pro-6000-blackwell", "0.19.0",
     {**MINIMAX, "max_model_len": 32768}, 29.19),
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
    tokens = KIMI["max_num_batched_tokens"]
    apart = 2 * tokens * 8 * (7168 + 2048 // 8)
    shared = 2 * tokens * 8 * 2 * 7168
    for release, size, kept in (("0.22.1", apart, False), ("0.23.0", shared, True)):
        memory = plan(
            "moonshotai/Kimi-K2.5", "8xh200", release, {**KIMI, "tensor_parallel_size": 8}
        )
        found = moe_workspaces(memory.card, memory.config, memory.device, memory.release)
        factor = constant("moe_workspaces", memory.release).value
        assert found.size.value == pytest.approx(factor * size)
        assert found.kept is kept


def test_kernels_of_the_b200_family_bring_buffers_of_their_own() -> None:
    """FlashInfer's `prepare_moe` for 32,768 tokens that visit 8 experts each.

    NVFP4 on eight ranks: 262,144 rows over 384 experts are more than 256 each, so tiles have 256;
    384 + (262,144 - 384) // 256 = 1,406 tiles hold 359,936 rows of 7168 features in 16 bits and
    2048 / 8 = 256 in 4.5 bits. FP8 blocks on two ranks: 128 experts, tiles of 128, 128 +
    (262,144 - 128) // 128 = 2,175 of them hold 278,400 rows of 4096 features in 16 bits, and 3 x
    768 in 8 bits and an fp32 scale for 128. Before 0.15.0 two 16-bit workspaces served.
    """
    settings = {"max_model_len": 8192, "max_num_batched_tokens": 32768}
    model = "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"
    for name, rig, ranks, size in (
        ("nvidia/Kimi-K2.5-NVFP4", "8xb200", 8, 359_936 * (2 * 7168 + 144)),
        (model, "2xb200", 2, 278_400 * (2 * 4096 + 3 * 768 * 33 // 32)),
    ):
        memory = plan(name, rig, "0.19.0", {**settings, "tensor_parallel_size": ranks})
        found = moe_workspaces(memory.card, memory.config, memory.device, memory.release)
        assert found.size.value == size
        assert not found.kept
    older = plan(model, "2xb200", "0.14.1", {**settings, "tensor_parallel_size": 2})
    assert moe_workspaces(older.card, older.config, older.device, older.release).kept


def test_spread_experts_of_fp8_blocks_run_in_flashinfers_buffers_on_hopper() -> None:
    """8,192 tokens that visit 8 of 128 experts make 65,536 rows on each of four ranks: of 4,096
    features and of gate and up, 2 x 1,536, in 16 bits; and of 4,096 in 8 bits with 32 fp32 scales.
    What remains is a batch of the hidden size. Sliced experts, and releases before 0.17.0, have
    two workspaces of 65,536 rows of the hidden size, kept since 0.13.0."""
    model = "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"
    settings = {
        "tensor_parallel_size": 4, "max_num_batched_tokens": 8192, "max_model_len": 8192
    }  # fmt: skip

    def of(rig: str, release: str, *, spread: bool) -> MoeWorkspaces:
        memory = plan(model, rig, release, {**settings, "enable_expert_parallel": spread})
        return moe_workspaces(memory.card, memory.config, memory.device, memory.release)

    found = of("4xh100-sxm", "0.19.0", spread=True)
    assert found.size.value == 8192 * 4096 * 2
    assert found.kept
    assert found.beside.value == 65536 * ((4096 + 2 * 1536) * 2 + 4096 + 32 * 4)
    for rig, release, spread in (
        ("4xh100-sxm", "0.19.0", False),
        ("4xh100-sxm", "0.16.0", True),
        ("4xrtx-pro-6000-blackwell", "0.19.0", True),
    ):
        other = of(rig, release, spread=spread)
        assert other.size.value == pytest.approx(2 * 65536 * 4096 * 2, rel=0.02)
        assert other.beside.value == 65536 * (1536 if spread else 384) + 8192 * 4096


@pytest.mark.parametrize(
    ("rig", "release", "mib"),
    [  # `g_fi_workspace`, and on the B200 family `g_sm100_workspace`
        ("4xb200", "0.19.0", 128 + 128),
        ("4xb200", "0.25.0", 128),
        ("8xh200", "0.19.0", 128),
        ("8xh200", "0.25.0", 0),
        ("8xh200", "0.11.0", 0),  # imports the chosen one alone
        ("8xmi300x", "0.19.0", 0),
    ],
)
def test_modules_of_mla_backends_take_workspaces(rig: str, release: str, mib: int) -> None:
    settings = {"tensor_parallel_size": find_rig(rig).gpu_count, "max_model_len": 8192}
    taken = plan("moonshotai/Kimi-K2.5", rig, release, settings).ranks[0].buffers.imported
    assert taken == mib * MIB
    other = plan("meta-llama/Llama-3.1-8B-Instruct", rig, release, settings).ranks[0]
    assert other.buffers.imported == 0


def test_loading_takes_what_the_imports_do() -> None:
    """kaitakuai/experiments@276b60d, 2026-04: 140.49 GiB of Kimi-K2.5 on four B200 and 70.97 of
    its NVFP4 checkpoint on eight, both with 0.19.0 and no backend named."""
    for name, rig, ranks, printed in (
        ("moonshotai/Kimi-K2.5", "4xb200", 4, 140.49),
        ("nvidia/Kimi-K2.5-NVFP4", "8xb200", 8, 70.97),
    ):
        settings = {"tensor_parallel_size": ranks, "max_model_len": 131072, "max_num_seqs": 128}
        rank = plan(name, rig, "0.19.0", settings).ranks[0]
        assert (rank.weights.value + rank.buffers.model) / GIB == pytest.approx(printed, abs=0.05)


@pytest.mark.parametrize(
    ("model", "settings", "features"),
    [
        # The residual before and after attention; compiled, what attention put out (gated linear
        # attention its gate besides, and a buffer), else the input of the layer; gate, up and
        # their product in the widest MLP.
        ("meta-llama/Llama-3.1-8B-Instruct", {}, 2 * 4096 + 4096 // 2 + 3 * 14336 // 2),
        ("meta-llama/Llama-3.1-8B-Instruct", {"enforce_eager": True},
         2 * 4096 + 4096 + 3 * 14336 // 2),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {},
         2 * 2304 + (2 * 32 * 128 // 2 + 2304) + 3 * 9216 // 2),
        # Or, beside Marlin's buffers, output of routed experts and of a shared one; compiled, their
        # input too.
        ("moonshotai/Kimi-K2.5", {}, 2 * 7168 + 64 * 128 // 2 + 3 * 7168),
        ("moonshotai/Kimi-K2.5", {"enforce_eager": True}, 2 * 7168 + 7168 + 2 * 7168),
    ],
)  # fmt: skip
def test_a_token_in_the_text_pass(model: str, settings: dict[str, Any], features: int) -> None:
    """Bytes that one more token adds to the pass, in 16 bits."""

    def bytes_of(tokens: int) -> float:
        asked = {"tensor_parallel_size": 2, "max_model_len": 1024, "max_num_seqs": 8, **settings}
        memory = plan(model, "2xh100-sxm", "0.19.0", {**asked, "max_num_batched_tokens": tokens})
        card, config, device, release = memory.card, memory.config, memory.device, memory.release
        taken = text_pass(card, config, device, release, last_stage=True)
        experts = moe_workspaces(card, config, device, release)
        return taken.value - (0 if experts.kept else experts.size.value)

    assert (bytes_of(65536) - bytes_of(32768)) / 32768 == pytest.approx(2 * features)


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


def test_rows_of_16_bit_experts_are_moved_apart_on_rocm() -> None:
    """256 bytes after each row whose bytes are a multiple of 512: Qwen3-30B-A3B has 48 layers of
    128 experts, with 2 x 768 rows of 2 x 2048 bytes and 2048 rows of 2 x 768. 0.20.0 to 0.24.0
    undo it (`.contiguous()` in oracle/unquantized.py), and 0.30.0, which copies them back."""
    model, settings = "Qwen/Qwen3-30B-A3B", {"max_model_len": 8192}
    held = {
        release: plan(model, "mi300x", release, settings).ranks[0].parts.experts
        for release in ("0.19.0", "0.20.0", "0.24.0", "0.25.0", "0.29.0", "0.30.0")
    }
    as_stored = held["0.24.0"]
    gaps = 48 * 128 * (2 * 768 + 2048) * 256
    apart = {release: size - as_stored for release, size in held.items()}
    assert apart == {
        "0.19.0": gaps, "0.20.0": 0, "0.24.0": 0, "0.25.0": gaps, "0.29.0": gaps, "0.30.0": 0,
    }  # fmt: skip
    on_cuda = plan(model, "h100-sxm", "0.25.0", settings).ranks[0].parts.experts
    assert on_cuda == as_stored


def test_moving_rows_apart_strands_the_rest_of_a_block() -> None:
    """Gate and up of Qwen3-30B-A3B leave 768 MiB a layer (128 x 1,536 rows of 4,096 bytes) to the
    down projection's 448 MiB (128 x 2,048 rows of 1,536 + 256 bytes). On two GPUs the rows of down,
    768 bytes, stay where they are. 0.20.0 to 0.24.0 and 0.30.0 copy the matrices once more, which
    frees it; 0.25.0 and 0.26.0 count neither by the driver nor what loading took by it."""
    model = "Qwen/Qwen3-30B-A3B"
    for rig, release, ranks, mib in (
        ("mi300x", "0.19.0", 1, 48 * (768 - 448)),
        ("mi300x", "0.20.0", 1, 0),
        ("mi300x", "0.26.0", 1, 0),
        ("mi300x", "0.27.0", 1, 48 * (768 - 448)),
        ("mi300x", "0.29.0", 1, 48 * (768 - 448)),
        ("mi300x", "0.30.0", 1, 0),
        ("2xmi300x", "0.28.0", 2, 0),
        ("h100-sxm", "0.28.0", 1, 0),
    ):
        settings = {"max_model_len": 8192, "tensor_parallel_size": ranks}
        buffers = plan(model, rig, release, settings).ranks[0].buffers
        assert buffers.stranded == mib * MIB, (rig, release)
