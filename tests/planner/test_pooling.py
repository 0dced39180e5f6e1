"""Launches that pool hidden states, and those whose decoder reads what an encoder made.

The cases of vLLM's own answers are in test_oracle.py; here is what follows from them by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
from launches import bundled, plan

from hardware_db import find_rig
from planner import EngineConfig, PlanError, Workload, predict_speed, recommend, render_command
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import device_facts
from planner.engine.refusal import RefusalKind
from planner.engine.releases import find_release
from planner.engine.served import as_served
from planner.memory.plan import MemoryPlan
from planner.recommendation.requirements import Requirements
from planner.speed.step import MissingFact

EMBEDDING = "Qwen/Qwen3-Embedding-0.6B"
ENCODER = "BAAI/bge-m3"
WHISPER = "openai/whisper-large-v3"


def resolved(
    model: str, rig: str = "h100", release: str = "0.33.0", **given: Any
) -> ResolvedConfig:
    config = EngineConfig(**given)
    device = device_facts(find_rig(rig).smallest.gpu)
    return resolve(as_served(bundled(model), config), device, config, find_release(release))


def refusal(memory: MemoryPlan) -> RefusalKind | None:
    return memory.starts.refusal.kind if memory.starts.refusal is not None else None


@pytest.mark.parametrize(
    ("model", "given", "pooling"),
    [(EMBEDDING, {}, True), (EMBEDDING, {"runner": "generate"}, False), (ENCODER, {}, True),
     ("Qwen/Qwen3-8B", {}, False), ("Qwen/Qwen3-8B", {"runner": "pooling"}, True),
     ("Qwen/Qwen3-8B", {"convert": "classify"}, True),
     ("Qwen/Qwen3-8B", {"convert": "none"}, False), (WHISPER, {}, False)],
)  # fmt: skip
def test_who_pools(model: str, given: dict[str, str], pooling: bool) -> None:
    assert resolved(model, **given).pooling is pooling


def test_settings_of_a_pooled_language_model() -> None:
    config = resolved(EMBEDDING)
    assert (config.chunked_prefill, config.prefix_caching, config.async_scheduling) == (
        True,
        True,
        False,
    )
    assert config.in_flight_tokens == 8192  # one batch: nothing is scheduled ahead
    assert resolved(EMBEDDING, runner="generate").in_flight_tokens == 2 * 8192


def test_settings_of_an_encoder() -> None:
    config = resolved(ENCODER, "4090")
    assert (config.chunked_prefill, config.prefix_caching) == (False, False)
    assert config.max_num_batched_tokens == 8192  # a whole prompt, more than the default of 2048
    assert config.dtype == "float16"  # of fp32, where models that generate become bfloat16


def test_older_releases_scheduled_ahead_and_pooled_on_the_first_runner() -> None:
    assert resolved(EMBEDDING, release="0.19.1").async_scheduling
    assert not resolved(EMBEDDING, release="0.20.0").async_scheduling
    assert not resolved(EMBEDDING, release="0.28.0").model_runner_v2
    assert resolved(EMBEDDING, release="0.29.0").model_runner_v2


def test_an_encoder_has_no_kv_cache_and_needs_no_room_for_one() -> None:
    memory = plan(ENCODER, "4090")
    assert memory.starts.ok
    assert memory.kv_cache.groups == ()
    assert (memory.kv_cache.num_blocks, memory.kv_cache.tokens) == (1, 0)
    assert memory.tightest.kv_cache.value == 0
    assert memory.requests_at(512).value == float("inf")


def test_an_encoder_that_is_too_large_does_not_start() -> None:
    memory = plan(ENCODER, "custom:1GiB@500,bf16=50,cc=8.9")
    assert not memory.starts.ok
    assert "too large" in memory.starts.reason


def test_nothing_is_sampled() -> None:
    pooled, generates = plan(EMBEDDING, "h100"), plan(EMBEDDING, "h100", runner="generate")
    assert pooled.tightest.buffers.sampler == 0
    assert generates.tightest.buffers.sampler == 1024 * (151669 * 4 + 4740 * 4)
    assert pooled.tightest.activation.value < generates.tightest.activation.value


def test_the_head_is_dropped_and_a_classifier_scores_in_fp32() -> None:
    bytes_of = {
        convert: plan("Qwen/Qwen3-8B", "h100", runner="pooling", convert=convert).tightest.weights
        for convert in ("embed", "classify")
    }
    whole = plan("Qwen/Qwen3-8B", "h100").tightest.weights
    assert whole.value - bytes_of["embed"].value == 151936 * 4096 * 2
    assert bytes_of["classify"].value - bytes_of["embed"].value == 2 * 4096 * 4


def test_rows_of_nomics_rotary_table_follow_the_prompts() -> None:
    model = "nomic-ai/nomic-embed-text-v1.5"
    tables = [plan(model, max_model_len=length).tightest.parts.rotary for length in (512, 8192)]
    assert tables == [512 * 64 * 2, 8192 * 64 * 2]


def test_dense_layers_behind_an_embedding_are_loaded_for_texts_and_for_tokens() -> None:
    model = "google/embeddinggemma-300m"
    embeds, scores = plan(model), plan(model, convert="classify")
    projections = 2 * (768 * 3072 + 3072 * 768) * 4
    score = 2 * 768 * 4
    assert embeds.tightest.weights.value - scores.tightest.weights.value == projections - score


def test_models_that_overflow_in_fp16_run_in_fp32_on_cards_without_bf16() -> None:
    assert resolved("google/gemma-3-1b-it", "t4").dtype == "float32"
    assert resolved("google/embeddinggemma-300m", "t4").dtype == "float32"
    assert resolved("google/embeddinggemma-300m", "4090").dtype == "bfloat16"


@pytest.mark.parametrize(
    ("model", "given", "kind"),
    [(ENCODER, {"runner": "generate"}, RefusalKind.RUNNER),
     ("Qwen/Qwen3-8B", {"runner": "pooling", "convert": "none"}, RefusalKind.RUNNER),
     ("Qwen/Qwen3-8B", {"runner": "generate", "convert": "embed"}, RefusalKind.RUNNER),
     ("Skywork/Skywork-Reward-V2-Qwen3-8B", {"runner": "generate"}, RefusalKind.RUNNER),
     (ENCODER, {"max_num_batched_tokens": 4096}, RefusalKind.BATCH),
     (ENCODER, {"pipeline_parallel_size": 2}, RefusalKind.PIPELINE),
     (WHISPER, {"max_model_len": 1024}, RefusalKind.MAX_MODEL_LEN)],
)  # fmt: skip
def test_what_vllm_refuses(model: str, given: dict[str, Any], kind: RefusalKind) -> None:
    memory = plan(model, "2xh100-sxm", **given)
    assert refusal(memory) is kind
    assert "\n" not in memory.starts.reason


@pytest.mark.parametrize(("field", "value"), [("runner", "draft"), ("convert", "reward")])
def test_values_that_no_vllm_takes(field: str, value: str) -> None:
    with pytest.raises(PlanError, match=f"{field} must be one of auto, .*'{value}'"):
        EngineConfig(**{field: value})  # type: ignore[arg-type]


def test_the_runner_is_written_where_it_was_asked_for() -> None:
    words = render_command(plan("Qwen/Qwen3-8B", "h100", runner="pooling")).argv
    assert words[words.index("--runner") + 1] == "pooling"
    assert "--runner" not in render_command(plan(ENCODER, "h100")).argv


def test_blocks_of_self_and_cross_attention() -> None:
    """448 tokens, and as many states of the encoder as a batch may hold, in blocks of 16."""
    memory = plan(WHISPER, "4090")
    assert [len(group.layers) for group in memory.kv_cache.groups] == [32, 32]
    assert memory.kv_cache.blocks_per_request == 448 // 16 + 2048 // 16
    assert memory.kv_cache.bytes_per_block == (32 * 2 * 20 * 64 * 16 * 2,)
    assert not memory.config.prefix_caching
    assert not memory.config.chunked_prefill
    assert memory.config.async_scheduling


@pytest.mark.parametrize("model", [EMBEDDING, ENCODER, WHISPER])
def test_no_speed_of_writing_is_made_up(model: str) -> None:
    with pytest.raises(MissingFact):
        predict_speed(plan(model, "4090"), Workload(64, 16))


def test_none_of_them_is_ranked_among_chat_models() -> None:
    requirements = Requirements(Workload(64, 16), "chat")
    found = recommend(find_rig("4090"), requirements, limit=100).choices
    assert len(found) > 20
    for choice in found:
        assert not choice.card.pooling.pools, choice.model_id
        assert not choice.card.has_cross_attention, choice.model_id
