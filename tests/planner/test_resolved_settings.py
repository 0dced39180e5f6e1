"""What vLLM makes of settings that nobody gave, beside batch and graph sizes."""

from __future__ import annotations

import pytest

from hardware_db import find_rig
from model_cards.card import ModelCard
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import device_facts
from planner.engine.releases import find_release, known_releases
from planner.engine_config import AUTO_LENGTH


def bundled(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    return card


def resolved(
    release: str = "0.33.0", rig: str = "4090", model: str = "Qwen/Qwen3-8B", **given: object
) -> ResolvedConfig:
    device = device_facts(find_rig(rig).smallest.gpu)
    config = EngineConfig(**given)  # type: ignore[arg-type]
    return resolve(bundled(model), device, config, find_release(release))


@pytest.mark.parametrize("release", known_releases())
def test_memory_utilization_is_90_percent_before_0_20_and_92_from_there(release: str) -> None:
    newer = find_release(release).at_least("0.20.0")
    assert resolved(release).gpu_memory_utilization == (0.92 if newer else 0.9)
    assert resolved(release, gpu_memory_utilization=0.5).gpu_memory_utilization == 0.5


def test_the_longest_context_is_the_models() -> None:
    assert resolved().max_model_len == 40960  # max_position_embeddings of Qwen3-8B
    assert resolved(max_model_len=1234).max_model_len == 1234
    auto = resolved(max_model_len=AUTO_LENGTH)
    assert (auto.max_model_len, auto.auto_length) == (40960, True)


@pytest.mark.parametrize(
    ("rig", "given", "dtype", "width"),
    [("4090", "auto", "bfloat16", 2),
     ("t4", "auto", "float16", 2),  # no bfloat16 below compute capability 8.0
     ("3090", "half", "float16", 2),
     ("4090", "float", "float32", 4),
     ("4090", "float32", "float32", 4)],
)  # fmt: skip
def test_dtype(rig: str, given: str, dtype: str, width: int) -> None:
    config = resolved(rig=rig, dtype=given)
    assert (config.dtype, config.dtype_bytes) == (dtype, width)


def test_a_float16_checkpoint_stays_float16() -> None:
    assert resolved(model="meta-llama/Llama-2-7b-hf").dtype == "float16"


@pytest.mark.parametrize(
    ("release", "stages", "expected"),
    [("0.13.0", 1, False), ("0.14.0", 1, True), ("0.33.0", 1, True),
     ("0.14.1", 2, False), ("0.15.1", 2, True), ("0.33.0", 2, True)],
)  # fmt: skip
def test_asynchronous_scheduling(release: str, stages: int, expected: bool) -> None:
    """On from 0.14.0; in pipelines not yet in 0.14."""
    assert resolved(release, pipeline_parallel_size=stages).async_scheduling is expected


@pytest.mark.parametrize(
    # `VllmConfig.max_concurrent_batches` of 0.33.0: stages + 1 with asynchronous scheduling on
    # the second model runner. Windows had room for one batch before 0.26.0: gemma-4-31B on 0.21.0,
    # PP 2 and 4,096 batched tokens, needed 3.22 GiB for a request of 33,024 tokens.
    ("release", "stages", "batches"),
    [("0.13.0", 1, 1), ("0.13.0", 4, 1), ("0.20.0", 1, 1), ("0.20.0", 4, 1),
     ("0.26.0", 1, 2), ("0.33.0", 1, 2), ("0.33.0", 4, 5)],
)  # fmt: skip
def test_tokens_in_flight(release: str, stages: int, batches: int) -> None:
    config = resolved(release, pipeline_parallel_size=stages)
    assert config.in_flight_tokens == batches * 2048


@pytest.mark.parametrize(
    ("release", "expected"),
    [("0.25.1", True), ("0.26.0", False), ("0.27.1", False), ("0.28.0", True), ("0.33.0", True)],
)
def test_prefix_caching_of_hybrid_models(release: str, expected: bool) -> None:
    hybrid = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    assert resolved(release, model=hybrid).prefix_caching is expected
    assert resolved(release).prefix_caching is True
    assert resolved(release, model=hybrid, enable_prefix_caching=True).prefix_caching is True
    assert resolved(release, enable_prefix_caching=False).prefix_caching is False


@pytest.mark.parametrize(
    ("model", "since"),
    [("Qwen/Qwen3-8B", "0.22.0"), ("Qwen/Qwen3-8B-FP8", "0.24.0"),
     ("meta-llama/Llama-3.1-8B-Instruct", "0.23.0"), ("Qwen/Qwen2.5-7B-Instruct", "0.25.0"),
     ("Qwen/Qwen3-30B-A3B", "0.29.0"), ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "0.29.0")],
)  # fmt: skip
def test_the_second_model_runner_takes_over_family_by_family(model: str, since: str) -> None:
    releases = [name for name in known_releases() if resolved(name, model=model).model_runner_v2]
    assert releases == list(known_releases())[known_releases().index(since) :]
