"""Real launches on this machine's CPU: what vLLM allocates, prints and refuses, and the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vllm_folders import make_folder
from vllm_server import Launched, launch

from hardware_db import find_rig
from model_cards import open_card
from planner import EngineConfig, MemoryPlan, plan_memory
from planner.engine.refusal import RefusalKind
from planner.launch.facts import FailureKind
from planner.launch.log import read_log

pytestmark = pytest.mark.vllm

MIB = 2**20
Launch = Callable[..., tuple[MemoryPlan, Launched]]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture
def launched(tmp_path: Path, cache: Path) -> Launch:
    """Launches a tiny model: the plan, and what happened."""

    def run(
        model: str, environ: dict[str, str] | None = None, **settings: Any
    ) -> tuple[MemoryPlan, Launched]:
        folder = make_folder(tmp_path, model)
        environ = environ or {}
        config = EngineConfig(**settings)
        plan = plan_memory(open_card(str(folder)), find_rig("cpu"), config, environ=environ)
        options: list[str] = []
        for name, value in settings.items():
            options += [f"--{name.replace('_', '-')}", str(value)]
        return plan, launch(folder, options, environ, cache)

    return run


def assert_as_planned(plan: MemoryPlan, seen: Launched) -> None:
    assert plan.starts.ok, plan.starts.reason
    assert seen.cache_config, seen.log[-3000:]
    kv = plan.kv_cache
    assert int(seen.cache_config["num_gpu_blocks"]) == kv.num_blocks
    assert int(seen.cache_config["block_size"]) == plan.block_size
    assert int(seen.cache_config["kv_cache_size_tokens"]) == kv.tokens
    assert float(seen.cache_config["kv_cache_max_concurrency"]) == kv.concurrency
    assert seen.printed == (kv.tokens, kv.max_model_len, f"{kv.concurrency:.2f}")


def test_latent_attention_as_long_as_its_cache_allows(launched: Launch) -> None:
    plan, seen = launched("deepseek", kv_cache_memory_bytes=96 * MIB, max_model_len=-1)
    assert plan.kv_cache.max_model_len < plan.card.max_model_len
    assert_as_planned(plan, seen)


def test_the_environment_sets_the_size_of_a_hybrids_cache(launched: Launch) -> None:
    space = {"VLLM_CPU_KVCACHE_SPACE": "1"}
    plan, seen = launched("lfm2", space, kv_cache_memory_bytes=96 * MIB, max_model_len=8192)
    assert_as_planned(plan, seen)


def test_what_is_left_of_the_requested_memory(launched: Launch) -> None:
    total = find_rig("cpu").smallest.total_bytes
    assert total is not None
    share = round(2.5 * 1024 * MIB / total, 2)  # of machines of any size
    plan, seen = launched("llama", gpu_memory_utilization=share, max_model_len=4096, block_size=64)
    assert plan.starts.ok, plan.starts.reason
    tokens, _, _ = seen.printed
    assert plan.kv_tokens.low <= tokens <= plan.kv_tokens.high
    assert tokens == int(seen.cache_config["num_gpu_blocks"]) * plan.block_size


def test_a_length_that_does_not_fit_is_refused(launched: Launch) -> None:
    plan, seen = launched("llama", kv_cache_memory_bytes=4 * MIB, max_model_len=32768)
    assert plan.starts.refusal is not None
    assert plan.starts.refusal.kind is RefusalKind.KV_ROOM
    assert not seen.cache_config
    assert f"estimated maximum model length is {plan.kv_cache.longest_len}." in seen.log
    failure = read_log(seen.log.splitlines())[-1].failure
    assert failure is not None
    assert failure.kind is FailureKind.KV_ROOM
    assert failure.longest_len == plan.kv_cache.longest_len
