"""The command of a plan: complete, with a reason for each option, and right for every release."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from launches import bundled, plan

from planner import EngineConfig, PlanError, render_command
from planner.command.render import Command
from planner.engine.flags import accepts_flag
from planner.engine.releases import find_release, known_releases
from planner.engine_config import AUTO_LENGTH, EplbConfig, SpeculativeConfig

LAUNCHES: list[tuple[str, str, dict[str, Any]]] = [
    ("Qwen/Qwen3-8B", "4090", {}),
    ("Qwen/Qwen3-8B", "2x3090", {"tensor_parallel_size": 2, "max_model_len": 32768}),
    ("Qwen/Qwen3-8B", "8xh100-sxm", {"pipeline_parallel_size": 2, "data_parallel_size": 4}),
    ("Qwen/Qwen3-30B-A3B", "8xh100-sxm",
     {"tensor_parallel_size": 4, "enable_expert_parallel": True}),
    ("Qwen/Qwen3-8B", "4090", {"kv_cache_dtype": "fp8", "max_num_seqs": 16, "dtype": "bfloat16",
                               "gpu_memory_utilization": 0.85, "enforce_eager": True,
                               "block_size": 32, "enable_prefix_caching": False}),
    ("meta-llama/Llama-2-7b-hf", "t4", {"max_model_len": 2048, "max_num_batched_tokens": 512}),
]  # fmt: skip
# A value for each setting that is not its default, and the words it must become.
SETTINGS: dict[str, tuple[Any, list[str]]] = {
    "tensor_parallel_size": (2, ["--tensor-parallel-size", "2"]),
    "pipeline_parallel_size": (2, ["--pipeline-parallel-size", "2"]),
    "data_parallel_size": (2, ["--data-parallel-size", "2"]),
    "data_parallel_size_local": (1, ["--data-parallel-size-local", "1"]),
    "data_parallel_backend": ("ray", ["--data-parallel-backend", "ray"]),
    "nnodes": (2, ["--nnodes", "2"]),
    "distributed_executor_backend": ("ray", ["--distributed-executor-backend", "ray"]),
    "enable_expert_parallel": (True, ["--enable-expert-parallel"]),
    "enable_eplb": (True, ["--enable-eplb"]),
    "eplb_config": (
        EplbConfig(4),
        ["--eplb-config", '{"num_redundant_experts": 4, "window_size": 1000}'],
    ),
    "runner": ("pooling", ["--runner", "pooling"]),
    "convert": ("embed", ["--convert", "embed"]),
    "dtype": ("bfloat16", ["--dtype", "bfloat16"]),
    "quantization": ("fp8", ["--quantization", "fp8"]),
    "max_model_len": (5000, ["--max-model-len", "5000"]),
    "max_num_seqs": (77, ["--max-num-seqs", "77"]),
    "max_num_batched_tokens": (777, ["--max-num-batched-tokens", "777"]),
    "gpu_memory_utilization": (0.87654321, ["--gpu-memory-utilization", "0.87654321"]),
    "kv_cache_memory_bytes": (4294967296, ["--kv-cache-memory-bytes", "4294967296"]),
    "kv_cache_dtype": ("fp8", ["--kv-cache-dtype", "fp8"]),
    "block_size": (32, ["--block-size", "32"]),
    "num_gpu_blocks_override": (5000, ["--num-gpu-blocks-override", "5000"]),
    "enable_prefix_caching": (False, ["--no-enable-prefix-caching"]),
    "enable_chunked_prefill": (True, ["--enable-chunked-prefill"]),
    "cpu_offload_gb": (4.5, ["--cpu-offload-gb", "4.5"]),
    "offload_group_size": (6, ["--offload-group-size", "6"]),
    "offload_num_in_group": (2, ["--offload-num-in-group", "2"]),
    "offload_prefetch_step": (2, ["--offload-prefetch-step", "2"]),
    "async_scheduling": (False, ["--no-async-scheduling"]),
    "enforce_eager": (True, ["--enforce-eager"]),
    "disable_hybrid_kv_cache_manager": (True, ["--disable-hybrid-kv-cache-manager"]),
    "language_model_only": (True, ["--language-model-only"]),
    "mm_encoder_tp_mode": ("data", ["--mm-encoder-tp-mode", "data"]),
    "speculative_config": (
        SpeculativeConfig("ngram", 3),
        ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'],
    ),
    "decode_context_parallel_size": (2, ["--decode-context-parallel-size", "2"]),
    "enable_lora": (True, ["--enable-lora"]),
    "max_loras": (4, ["--max-loras", "4"]),
    "max_lora_rank": (64, ["--max-lora-rank", "64"]),
    "fully_sharded_loras": (True, ["--fully-sharded-loras"]),
    "trust_remote_code": (True, ["--trust-remote-code"]),
}


def parsed(command: Command) -> list[str]:
    """The words of the command as shlex reads them, continued lines joined as a shell does."""
    return shlex.split(command.shell().replace("\\\n", ""))


def contains(words: list[str], part: list[str]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words)))


@pytest.mark.parametrize("release", known_releases())
@pytest.mark.parametrize(("model", "rig", "settings"), LAUNCHES)
def test_every_release_gets_only_options_it_has(
    release: str, model: str, rig: str, settings: dict[str, Any]
) -> None:
    command = render_command(plan(model, rig, release, **settings))
    options = [word for word in command.argv if word.startswith("-")]
    assert len(options) == len(set(options)) >= 4
    assert [o for o in options if not accepts_flag(find_release(release), o)] == []
    assert command.argv[:3] == ["vllm", "serve", model]
    assert parsed(command) == command.argv


@pytest.mark.parametrize(
    ("release", "settings"),
    [("0.10.1.1", {"kv_cache_memory_bytes": 2**30}), ("0.16.0", {"language_model_only": True}),
     ("0.9.0", {"disable_hybrid_kv_cache_manager": True})],
)  # fmt: skip
def test_what_a_release_cannot_be_told_is_not_written(
    release: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(PlanError, match=f"vLLM {release} has no option --"):
        render_command(plan(release=release, **settings))


def test_every_setting_has_its_words() -> None:
    """A setting that is added must be added here: one left out changes the launch unseen."""
    assert set(EngineConfig.__struct_fields__) == set(SETTINGS)


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_is_left_out(setting: str) -> None:
    value, words = SETTINGS[setting]
    plain = render_command(plan(rig="2x4090"))
    assert not contains(plain.argv, words)
    assert contains(render_command(plan(rig="2x4090", **{setting: value})).argv, words)


def test_what_memory_depends_on_is_stated_even_where_it_is_the_default() -> None:
    """Their defaults differ between releases and GPUs."""
    words = render_command(plan(release="0.19.1")).argv
    for part in (["--gpu-memory-utilization", "0.9"], ["--max-num-seqs", "256"],
                 ["--max-num-batched-tokens", "2048"], ["--max-model-len", "40960"]):  # fmt: skip
        assert contains(words, part)


def test_auto_stays_auto() -> None:
    assert contains(
        render_command(plan(max_model_len=AUTO_LENGTH)).argv, ["--max-model-len", "auto"]
    )


def test_every_option_has_a_reason() -> None:
    chosen = {"max_model_len": "because of this", "kv_cache_dtype": "because of that"}
    command = render_command(plan(kv_cache_dtype="fp8", max_num_seqs=16, max_model_len=9), chosen)
    reasons = {flag.name: flag.reason for flag in command.flags}
    assert all(reasons.values())
    assert reasons["--max-model-len"] == "because of this"
    assert reasons["--kv-cache-dtype"] == "because of that"
    assert "default" in reasons["--gpu-memory-utilization"]
    assert "default" not in reasons["--max-num-seqs"]  # it was given


def test_no_option_for_a_checkpoints_own_quantization() -> None:
    """Its config decides; some methods lose their name between releases."""
    for model in ("Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B-FP8"):
        assert "--quantization" not in render_command(plan(bundled(model))).argv
