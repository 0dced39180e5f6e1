"""The settings chosen for one model: what was asked for holds, and each choice has a reason."""

from __future__ import annotations

import re
from typing import Any

import pytest
from launches import bundled
from msgspec.structs import replace

from hardware_db import find_rig
from planner import (
    EngineConfig,
    PlanError,
    Requirements,
    Settled,
    Unfit,
    Workload,
    plan_memory,
    render_command,
    settle,
)
from planner.engine.refusal import RefusalKind
from planner.engine.releases import find_release
from planner.recommendation.layouts import layouts
from planner.recommendation.settle import settle_layouts
from planner.workload import USE_CASES


def settled(
    model: str = "Qwen/Qwen3-8B",
    rig: str = "4090",
    *,
    workload: Workload | None = None,
    context: int | None = None,
    release: str = "0.33.0",
    free: str | None = None,
    reserve: str | None = None,
) -> Settled | Unfit:
    wanted = Requirements(workload or Workload(1024, 384), "chat", context)
    found = find_rig(rig, free_memory=free, reserve=reserve)
    return settle(bundled(model), found, wanted, find_release(release))


def works(result: Settled | Unfit) -> Settled:
    assert isinstance(result, Settled), result
    return result


def reason(result: Settled | Unfit) -> str:
    assert isinstance(result, Unfit), result
    return result.reason


@pytest.mark.parametrize("context", [1408, 2048, 8192, 16384, 32768, 40960])
def test_the_context_asked_for_is_the_context_served(context: int) -> None:
    result = works(settled(context=context))
    assert result.memory.config.max_model_len == context
    argv = render_command(result.memory, result.reasons).argv
    assert argv[argv.index("--max-model-len") + 1] == str(context)
    assert result.memory.kv_cache.longest_len >= context


def test_without_one_it_is_16384_or_all_the_model_has() -> None:
    assert works(settled()).memory.config.max_model_len == 16384
    assert works(settled("meta-llama/Llama-2-7b-hf")).memory.config.max_model_len == 4096


def test_a_longer_context_than_the_models_is_no() -> None:
    text = reason(settled(context=40961))
    assert "40961" in text
    assert "40960" in text


def test_longer_requests_than_the_models_context_are_no() -> None:
    """Llama 2 ends at 4096 tokens."""
    assert works(settled("meta-llama/Llama-2-7b-hf", workload=Workload(4000, 96)))
    text = reason(settled("meta-llama/Llama-2-7b-hf", workload=Workload(4000, 97)))
    assert text == "requests of 4000 + 97 tokens are longer than the model's context of 4096"


@pytest.mark.parametrize(("rig", "concurrency"), [("4090", 1), ("4090", 8), ("4090", 60),
                                                  ("a100-80gb", 200)])  # fmt: skip
def test_as_many_requests_as_asked_for_fit_at_once(rig: str, concurrency: int) -> None:
    workload = Workload(512, 128, concurrency)
    result = works(settled(rig=rig, workload=workload, context=4096))
    assert result.memory.requests_at(640).value >= concurrency
    assert result.memory.config.max_num_seqs >= concurrency
    assert result.speed is not None
    assert not any("wait" in note for note in result.speed.notes)


@pytest.mark.parametrize(
    ("concurrency", "seqs", "tokens"),
    [(256, 256, 2048), (257, 257, 2048), (3000, 3000, 3000)],
)
def test_the_batch_has_room_for_every_request(concurrency: int, seqs: int, tokens: int) -> None:
    """The default of this GPU is 256 sequences and 2048 tokens in a batch; vLLM refuses a batch of
    fewer tokens than sequences."""
    workload = Workload(10, 10, concurrency)
    result = works(settled("Qwen/Qwen3-0.6B", workload=workload, context=32))
    config = result.memory.config
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (seqs, tokens)
    assert result.memory.starts.ok


def test_more_requests_than_the_cache_holds_are_no() -> None:
    # Qwen3-8B: 36 layers x 2 x 8 KV heads x 128 x 2 bytes = 147,456 bytes a token, so that even
    # with fp8 (half of it) 24 GiB hold less than 350,000 tokens: 100 requests of 4,000 do not fit.
    assert "fewer than 100" in reason(
        settled(workload=Workload(3500, 500, 100), context=4096, release="0.33.0")
    )


def test_what_others_hold_is_left_alone() -> None:
    """20 GiB free of 23.63: at most 20/23.63 = 84.6 % can be asked for."""
    result = works(settled(free="20GiB", context=4096))
    assert result.config.gpu_memory_utilization is not None
    assert 0.7 < result.config.gpu_memory_utilization <= 0.846
    assert "free" in result.reasons["gpu_memory_utilization"]
    kept = works(settled(reserve="3GiB", context=4096))
    assert kept.config.gpu_memory_utilization is not None
    assert kept.config.gpu_memory_utilization <= (23.63 - 3) / 23.63


def test_too_little_free_memory_is_no() -> None:
    """The weights alone are 8.19e9 parameters x 2 bytes = 15.3 GiB."""
    assert isinstance(settled(free="15GiB"), Unfit)


@pytest.mark.parametrize(
    ("model", "rig", "expected"),
    # Attention heads: Qwen2.5-7B-Instruct 28, Qwen3-8B 32.
    [("Qwen/Qwen2.5-7B-Instruct", "8x4090", {(1, 1), (2, 1), (4, 1), (4, 2)}),
     ("Qwen/Qwen3-8B", "8x4090", {(1, 1), (2, 1), (4, 1), (8, 1)}),
     ("Qwen/Qwen3-8B", "3x3090", {(1, 1), (2, 1), (1, 3)}),
     ("Qwen/Qwen3-8B", "6x3090", {(1, 1), (2, 1), (4, 1), (2, 3)}),
     ("Qwen/Qwen3-8B", "2x8xh100-sxm", {(1, 2), (2, 2), (4, 2), (8, 2)}),
     ("Qwen/Qwen3-8B", "4090", {(1, 1)})],
)  # fmt: skip
def test_layouts_divide_the_heads_and_fill_the_nodes(
    model: str, rig: str, expected: set[tuple[int, int]]
) -> None:
    found = layouts(bundled(model), find_rig(rig))
    assert {(layout.tensor, layout.pipeline) for layout in found} == expected


def test_a_third_card_helps_although_no_head_count_divides_by_three() -> None:
    """Qwen3-32B-FP8, 32 GiB with 16-bit embeddings: not on 2 x 16 GB, but on 3 as a pipeline."""
    assert isinstance(settled("Qwen/Qwen3-32B-FP8", "2x4080"), Unfit)
    config = works(settled("Qwen/Qwen3-32B-FP8", "3x4080")).config
    assert (config.tensor_parallel_size, config.pipeline_parallel_size) == (1, 3)


def test_a_model_too_large_for_one_card_is_split() -> None:
    """Qwen3-14B: 14.77e9 x 2 bytes = 27.5 GiB, on cards of 23.56 GiB."""
    assert isinstance(settled("Qwen/Qwen3-14B", "3090"), Unfit)
    assert works(settled("Qwen/Qwen3-14B", "2x3090")).config.world_size == 2


@pytest.mark.parametrize("rig", ["4090", "2x3090", "8xh100-sxm", "3060", "2x8xh100-sxm"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-14B-AWQ"])
def test_each_departure_from_the_defaults_has_a_reason(model: str, rig: str) -> None:
    result = settled(model, rig, workload=Workload(1024, 384, 4))
    if isinstance(result, Unfit):
        assert rig == "3060"
        return
    changed = set(result.config.departures())
    assert changed <= set(result.reasons)
    assert all(result.reasons[name] for name in changed)


@pytest.mark.parametrize("use_case", USE_CASES)
def test_a_context_shorter_than_the_requests_is_refused(use_case: str) -> None:
    workload = USE_CASES[use_case]
    Requirements(workload, use_case, workload.total_tokens)
    with pytest.raises(PlanError, match="cannot hold requests"):
        Requirements(workload, use_case, workload.total_tokens - 1)


@pytest.mark.parametrize("number", [0, -1, 2**31, 10**30])
def test_numbers_that_no_vllm_can_count(number: int) -> None:
    """Its sequence lengths are int32."""
    with pytest.raises(PlanError, match="between 1 and 2,147,483,647"):
        Requirements(Workload(), "chat", number)
    for name in ("prompt_tokens", "output_tokens", "concurrency"):
        with pytest.raises(PlanError, match=name.replace("_", " ")):
            Workload(**{name: number})
    assert Workload(concurrency=2**31 - 1).concurrency == 2**31 - 1


@pytest.mark.parametrize(
    ("release", "words"),
    [("0.33.0", ["--nnodes", "2"]), ("0.10.2", ["--distributed-executor-backend", "ray"])],
)
def test_a_launch_over_nodes_says_how(release: str, words: list[str]) -> None:
    """vLLM refuses a world size beyond the GPUs of a node unless it is told of the others."""
    found = settle(
        bundled("meta-llama/Llama-3.1-405B-Instruct-FP8"), find_rig("2x8xa100-sxm4-40gb"),
        Requirements(Workload(), "chat", 4096), find_release(release),
    )  # fmt: skip
    assert isinstance(found, Settled)
    argv = render_command(found.memory, found.reasons).argv
    at = argv.index(words[0])
    assert argv[at : at + 2] == words


def test_a_node_has_too_few_gpus() -> None:
    config = EngineConfig(tensor_parallel_size=8, pipeline_parallel_size=2)
    memory = plan_memory(bundled("Qwen/Qwen3-32B"), find_rig("2x8xh100-sxm"), config)
    assert memory.starts.refusal is not None
    assert memory.starts.refusal.kind is RefusalKind.NODES
    both = replace(config, nnodes=2)
    assert plan_memory(bundled("Qwen/Qwen3-32B"), find_rig("2x8xh100-sxm"), both).starts.ok


@pytest.mark.parametrize(
    ("settings", "ok"),
    [
        ({}, False),  # vLLM starts all sixteen on the first machine
        ({"data_parallel_size_local": 8}, True),
        ({"data_parallel_size_local": 16}, False),
        ({"nnodes": 2}, True),
        ({"data_parallel_backend": "ray"}, True),
        ({"data_parallel_size_local": 0}, True),  # an API server alone
        ({"data_parallel_size_local": 4}, False),  # and eight that nobody starts
    ],
)
def test_replicas_of_several_machines_are_counted(settings: dict[str, Any], ok: bool) -> None:
    """`create_engine_config`: the local size is the whole one unless it is given, or inferred from
    the number of nodes."""
    config = EngineConfig(data_parallel_size=16, **settings)
    memory = plan_memory(bundled("Qwen/Qwen3-8B"), find_rig("2x8xh100-sxm"), config)
    refusal = memory.starts.refusal
    assert (refusal is None) == ok
    if refusal is not None:
        assert refusal.kind is RefusalKind.NODES
        assert re.search("--data-parallel-size-local 8|waits for the others", refusal.reason)


def test_more_local_replicas_than_there_are() -> None:
    with pytest.raises(PlanError, match="data_parallel_size_local"):
        EngineConfig(data_parallel_size=2, data_parallel_size_local=4)


@pytest.mark.parametrize("quantization", [None, "fp8"])
@pytest.mark.parametrize("rig", ["8x3090", "8xh100-sxm"])
@pytest.mark.parametrize(
    "model",
    ["deepseek-ai/DeepSeek-V3", "allenai/OLMo-2-0325-32B", "meta-llama/Llama-3.3-70B-Instruct",
     "openai/gpt-oss-120b", "Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-30B-A3B"],
)  # fmt: skip
def test_what_surely_lacks_room_never_works(model: str, rig: str, quantization: str | None) -> None:
    """The layouts that a ranking does not look at are those whose whole plan finds no room.

    The fp32 weights of OLMo-2 are served in half of their 129 GB, in a quarter as fp8.
    """
    asked = Requirements(Workload(1024, 384, concurrency=8), "chat")
    question = (bundled(model), find_rig(rig), asked, find_release("0.33.0"), quantization)
    whole, roomy = settle_layouts(*question), settle_layouts(*question, only_roomy=True)
    seen = [each.layout for each in roomy]
    left_out = [each for each in whole if each.layout not in seen]
    assert not any(isinstance(each, Settled) for each in left_out)
    assert all(isinstance(each, Unfit) and each.excess_bytes > 0 for each in left_out)
    assert len(left_out) + len(roomy) == len(whole)
    if model == "meta-llama/Llama-3.3-70B-Instruct" and rig == "8x3090":
        assert left_out  # 141 GB, 71 in fp8, and 26 on a card


def test_a_larger_share_comes_before_a_server_for_one_request() -> None:
    """Gemma-3-27B in 4 bits leaves the cache of a 4090 so little that a batch of one would do.

    3 % more of 23.63 GiB are 0.71 GiB, and the sampler of 16 rows of 262,208 takes 0.06.
    """
    result = works(settled("RedHatAI/gemma-3-27b-it-quantized.w4a16"))
    assert result.memory.config.max_num_seqs == 16
    assert result.memory.config.gpu_memory_utilization == 0.95
    assert result.sure
