"""What vLLM's checks do not see, as findings with their size, worked out by hand."""

from __future__ import annotations

import pytest
from launches import bundled
from msgspec.structs import replace

from hardware_db import find_rig
from planner import EngineConfig, plan_memory
from planner.diagnosis.later_risks import later_risks
from planner.findings import Finding, Severity

GIB = 2**30


def risks(model: str, rig: str, release: str, **settings: object) -> dict[str, Finding]:
    config = EngineConfig(max_model_len=8192, **settings)  # type: ignore[arg-type]
    memory = plan_memory(bundled(model), find_rig(rig), config, vllm=release)
    return {finding.code: finding for finding in later_risks(memory)}


def test_graphs_outside_the_budget_need_room_there() -> None:
    """5 % of 23.56 GiB are 1.18, less a context of 0.45: 0.73 GiB; vLLM 0.19 captures 51 graphs."""
    found = risks("Qwen/Qwen3-8B-AWQ", "3090", "0.19.0", gpu_memory_utilization=0.95)
    assert found["graph_capture"].severity is Severity.WARNING
    assert "0.73 GiB" in found["graph_capture"].text
    assert "graph_capture" not in risks("Qwen/Qwen3-8B-AWQ", "3090", "0.19.0")  # 10 % are left
    eager = {"gpu_memory_utilization": 0.95, "enforce_eager": True}
    assert "graph_capture" not in risks("Qwen/Qwen3-8B-AWQ", "3090", "0.19.0", **eager)
    # From 0.20.0 on the budget holds them.
    later = risks("Qwen/Qwen3-8B-AWQ", "3090", "0.21.0", gpu_memory_utilization=0.95)
    assert "graph_capture" not in later


def test_a_greedy_profile_hides_the_sampler() -> None:
    """Logits of 1,024 x 151,936 in 14.1 bytes are 2.04 GiB, and the hidden states of 2,048 + 1,024
    tokens x 4,096 in 16 bits 0.02; 3 % of the card, 0.71 GiB less a context of 0.45, is left."""
    settings = {"gpu_memory_utilization": 0.97, "max_num_seqs": 1024}
    found = risks("Qwen/Qwen3-8B", "3090", "0.32.0", **settings)["sampler_peak"]
    expected = (14.1 * 1024 * 151936 + 3072 * 4096 * 2) / GIB
    assert f"takes {expected:.2f} GiB" in found.text
    assert found.fix == "--max-num-seqs 512 halves it"
    settings["max_num_seqs"] = 64
    assert "sampler_peak" not in risks("Qwen/Qwen3-8B", "3090", "0.32.0", **settings)
    settings["max_num_seqs"] = 1024
    assert "sampler_peak" not in risks("Qwen/Qwen3-8B", "3090", "0.33.0", **settings)


def test_offloaded_weights_are_pinned() -> None:
    """8 GiB on each of two ranks; a machine of 16 GiB cannot pin that, nor leave enough with 18."""
    config = EngineConfig(tensor_parallel_size=2, max_model_len=8192, cpu_offload_gb=8)

    def found(host: int | None) -> Finding | None:
        rig = replace(find_rig("2x4090"), host_memory_bytes=host)
        memory = plan_memory(bundled("Qwen/Qwen3-32B"), rig, config, vllm="0.33.0")
        return next((each for each in later_risks(memory) if each.code == "host_memory"), None)

    unknown = found(None)
    assert unknown is not None
    size = float(unknown.text.split()[0])
    assert 15 < size <= 16.3  # whole parameters
    for host, severity in ((16, Severity.ERROR), (18, Severity.WARNING)):
        finding = found(host * GIB)
        assert finding is not None
        assert finding.severity is severity
        assert finding.fix == "a smaller --cpu-offload-gb"
    assert found(64 * GIB) is None


def test_tables_in_host_memory_are_no_options_doing() -> None:
    """Where nothing of the weights is offloaded, --cpu-offload-gb cannot take less."""
    card = bundled("deepseek-ai/DeepSeek-V4.1-Flash")
    rig = replace(find_rig("8xh200"), host_memory_bytes=GIB)
    config = EngineConfig(tensor_parallel_size=8, max_model_len=8192)
    memory = plan_memory(card, rig, config, vllm="0.33.0")
    (found,) = [each for each in later_risks(memory) if each.code == "host_memory"]
    assert found.fix is not None
    assert found.fix.startswith("a machine with more memory")
    groups = replace(config, offload_group_size=8, offload_num_in_group=1)
    memory = plan_memory(bundled("Qwen/Qwen3-32B"), rig, groups, vllm="0.33.0")
    (found,) = [each for each in later_risks(memory) if each.code == "host_memory"]
    assert found.fix == "a larger --offload-group-size"


@pytest.mark.parametrize(("tokens", "size"), [(8192, "2.90"), (4096, "1.45")])
def test_prefill_of_hybrids_grows_with_the_step(tokens: int, size: str) -> None:
    settings = {"tensor_parallel_size": 2, "max_num_batched_tokens": tokens,
                "gpu_memory_utilization": 0.95}  # fmt: skip
    found = risks("Qwen/Qwen3.6-27B-FP8", "2x5090", "0.25.1", **settings)
    assert f"some {size} GiB" in found["prefill_peak"].text
    settings["gpu_memory_utilization"] = 0.85  # 4.7 GiB stay beside the budget
    assert "prefill_peak" not in risks("Qwen/Qwen3.6-27B-FP8", "2x5090", "0.25.1", **settings)


def test_the_lever_of_a_large_pass() -> None:
    """Gemma's 262,208 words and vLLM 0.16's 38 bytes: 1,024 requests take more than 9 GiB."""
    found = risks("google/gemma-3-12b-it", "h100-sxm", "0.16.0")["large_pass"]
    assert found.severity is Severity.INFO
    assert "sampler" in found.text
    assert found.fix == "--max-num-seqs 512 halves it"
    assert risks("Qwen/Qwen3-8B", "h100-sxm", "0.33.0") == {}
