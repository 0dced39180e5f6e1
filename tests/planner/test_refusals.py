"""Launches that vLLM refuses before memory matters, each beside the nearest one it accepts."""

from __future__ import annotations

from typing import Any

import pytest
from launches import bundled, plan
from msgspec.structs import replace

from hardware_db import find_rig
from planner import EngineConfig, PlanError, plan_memory
from planner.engine_config import AUTO_LENGTH
from planner.memory.plan import Refused


def refusal(*args: Any, **settings: Any) -> str | None:
    """Why vLLM refuses the launch whatever the memory; None if it does not."""
    try:
        verdict = plan(*args, **settings).starts
    except Refused as error:
        return str(error)
    return verdict.reason if verdict.breaks_a_rule else None


def test_an_ordinary_launch_breaks_no_rule() -> None:
    assert refusal() is None
    assert refusal("Qwen/Qwen2.5-7B-Instruct", "4x4090", tensor_parallel_size=4) is None


@pytest.mark.parametrize(
    # Attention heads: Qwen3-8B 32, Qwen2.5-7B-Instruct 28, Qwen2.5-1.5B-Instruct 12.
    ("model", "ranks", "heads"),
    [("Qwen/Qwen3-8B", 3, 32), ("Qwen/Qwen3-8B", 6, 32), ("Qwen/Qwen2.5-7B-Instruct", 8, 28),
     ("Qwen/Qwen2.5-1.5B-Instruct", 8, 12)],
)  # fmt: skip
def test_heads_must_divide_by_the_ranks(model: str, ranks: int, heads: int) -> None:
    reason = refusal(model, f"{ranks}x4090", tensor_parallel_size=ranks)
    assert reason is not None
    assert f"heads ({heads})" in reason
    assert f"tensor parallel size ({ranks})" in reason


def test_more_gpus_than_there_are() -> None:
    with pytest.raises(PlanError, match=r"4 GPUs are needed, but 2xrtx-4090 has 2"):
        plan(rig="2x4090", tensor_parallel_size=2, pipeline_parallel_size=2)
    with pytest.raises(PlanError, match="2 GPUs are needed"):
        plan(data_parallel_size=2)


def test_a_context_beyond_the_models_own() -> None:
    assert refusal(max_model_len=40960) is None  # max_position_embeddings of Qwen3-8B
    reason = refusal(max_model_len=40961)
    assert reason is not None
    assert "40961" in reason
    assert "40960" in reason


def test_a_batch_smaller_than_the_number_of_sequences() -> None:
    assert refusal(max_num_seqs=300, max_num_batched_tokens=300) is None
    reason = refusal(max_num_seqs=300, max_num_batched_tokens=299)
    assert reason is not None
    assert "max_num_batched_tokens (299)" in reason
    # Left unset, max_num_seqs follows from 0.10.1.1 on; before, the default 256 stands.
    assert refusal(max_num_batched_tokens=128, release="0.10.1.1") is None
    assert refusal(max_num_batched_tokens=128, release="0.10.0") is not None


def test_whole_prompts_need_a_batch_of_full_length() -> None:
    whole = {"enable_chunked_prefill": False, "max_model_len": 4096}
    assert refusal(**whole, max_num_batched_tokens=4096) is None
    reason = refusal(**whole, max_num_batched_tokens=4095)
    assert reason is not None
    assert "without chunked prefill" in reason


def test_auto_as_the_context_is_known_from_0_14_on() -> None:
    assert refusal(max_model_len=AUTO_LENGTH, release="0.14.0") is None
    reason = refusal(max_model_len=AUTO_LENGTH, release="0.13.0")
    assert reason is not None
    assert "auto" in reason


@pytest.mark.parametrize(
    ("setting", "without", "first"),
    [({"kv_cache_memory_bytes": 4 * 2**30}, "0.10.1.1", "0.10.2"),
     ({"disable_hybrid_kv_cache_manager": True}, "0.9.0", "0.9.1"),
     ({"language_model_only": True}, "0.16.0", "0.17.0")],
)  # fmt: skip
def test_options_that_the_release_does_not_have(
    setting: dict[str, Any], without: str, first: str
) -> None:
    assert refusal(release=first, **setting) is None
    reason = refusal(release=without, **setting)
    assert reason is not None
    assert f"vLLM {without} has no option --{next(iter(setting)).replace('_', '-')}" in reason


@pytest.mark.parametrize(
    ("dtype", "without", "first"),
    [("bfloat16", "0.10.2", "0.11.0"), ("float16", "0.17.1", "0.18.0"),
     ("fp8_per_token_head", "0.19.1", "0.20.0")],
)  # fmt: skip
def test_kv_cache_dtypes_that_the_release_does_not_have(
    dtype: str, without: str, first: str
) -> None:
    assert refusal(release=first, kv_cache_dtype=dtype) is None
    reason = refusal(release=without, kv_cache_dtype=dtype)
    assert reason is not None
    assert dtype in reason


def test_quantization_methods_that_the_release_does_not_have() -> None:
    """mxfp4 came with 0.10.1.1."""
    assert refusal("openai/gpt-oss-20b", release="0.10.1.1") is None
    reason = refusal("openai/gpt-oss-20b", release="0.10.0")
    assert reason is not None
    assert "mxfp4" in reason


@pytest.mark.parametrize(
    ("rig", "wheel"),
    [("v100-sxm2-32gb", False), ("p40", False), ("custom:24GiB,cc=7.0", False), ("t4", True),
     ("a100-sxm4-80gb", True), ("5090", True)],
)  # fmt: skip
def test_the_wheel_begins_with_turing(rig: str, wheel: bool) -> None:
    assert (refusal("Qwen/Qwen2.5-1.5B-Instruct", rig) is None) is wheel


def test_turing_has_no_bfloat16() -> None:
    small = "Qwen/Qwen2.5-1.5B-Instruct"
    assert refusal(small, "t4", dtype="bfloat16") is not None
    assert refusal(small, "t4", dtype="half") is None
    assert refusal(small, "t4") is None  # auto becomes float16


def test_turing_has_no_fp8_cache() -> None:
    assert refusal("Qwen/Qwen2.5-1.5B-Instruct", "t4", kv_cache_dtype="fp8") is not None
    assert refusal("Qwen/Qwen2.5-1.5B-Instruct", "3090", kv_cache_dtype="fp8") is None


def test_fp8_weights_need_ampere_before_0_32_and_turing_from_there() -> None:
    """`Fp8Config.get_min_capability`: 80, then 75."""
    weights = "Qwen/Qwen3-8B-FP8"
    assert refusal(weights, "t4", release="0.31.0") is not None
    assert refusal(weights, "t4", release="0.32.0") is None
    assert refusal(weights, "3090", release="0.31.0") is None


@pytest.mark.parametrize(
    ("rig", "accepted"),
    # CUDA has NVFP4 kernels or Marlin's weight-only one, ROCm an emulation, the others nothing.
    [("b200", True), ("4090", True), ("mi300x", True), ("cpu:64GiB", False),
     ("arc-b580:11GiB", False)],
)  # fmt: skip
def test_nvfp4_weights_need_a_gpu_with_kernels_for_them(rig: str, accepted: bool) -> None:
    assert (refusal("nvidia/Qwen3-8B-NVFP4", rig) is None) is accepted


def test_an_architecture_that_vllm_does_not_have() -> None:
    unheard = replace(bundled("Qwen/Qwen3-8B"), architecture="NoSuchModelForCausalLM")
    reason = refusal(unheard)
    assert reason is not None
    assert "NoSuchModelForCausalLM" in reason


def test_a_refused_launch_never_starts_however_much_memory_there_is() -> None:
    verdict = plan(rig="b200", max_model_len=40961).starts
    assert (verdict.ok, verdict.answer.value, verdict.chance_of_refusal) == (False, "no", 1.0)


def test_models_that_need_float32_have_none_in_awq() -> None:
    """Gemma 2 overflows in float16, which is all that a T4 has beside float32."""
    refused = plan("hugging-quants/gemma-2-9b-it-AWQ-INT4", "t4", max_model_len=2048).refusals
    assert "float32 is not supported with awq weights" in [each.reason for each in refused]
    taken = plan("hugging-quants/gemma-2-9b-it-AWQ-INT4", "3090", max_model_len=2048).refusals
    assert taken == ()


@pytest.mark.parametrize(
    ("environ", "block_size", "accepted"),
    [({}, 16, True), ({}, 1, False), ({"VLLM_ROCM_USE_AITER": "1"}, 1, True),
     ({"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_USE_AITER_MLA": "0"}, 1, False)],
)  # fmt: skip
def test_amds_own_kernels_for_latent_attention_take_single_tokens(
    environ: dict[str, str], block_size: int, accepted: bool
) -> None:
    """`_get_backend_priorities` of platforms/rocm.py: Triton's take multiples of 16."""
    config = EngineConfig(tensor_parallel_size=8, block_size=block_size)
    memory = plan_memory(
        bundled("moonshotai/Kimi-K2.5"), find_rig("8xmi300x"), config, environ=environ,
        vllm="0.33.0",
    )  # fmt: skip
    assert memory.starts.breaks_a_rule != accepted
    if not accepted:
        assert "TRITON_MLA" in memory.starts.reason
