"""A checkpoint that reads as a model is planned, or refused in one line, and within a second."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from mutated_configs import changed
from program import Vplan

from hardware_db import find_rig
from model_cards import CardError, ModelCard
from model_cards.sources.bundled import bundled_config
from planner.engine.releases import find_release
from planner.engine_config import EngineConfig
from planner.errors import PlanError
from planner.memory.plan import plan_memory
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import settle
from planner.workload import USE_CASES

RIGS = [find_rig(spec) for spec in ("4090", "h100", "8xh100", "mi300x", "2x3090", "gb10")]
RELEASES = [find_release(text) for text in ("0.33.0", "0.19.0", "0.10.2")]
CHECKPOINTS_PER_SEED = 200


def plan(card: ModelCard, rng: random.Random) -> None:
    rig, release = rng.choice(RIGS), rng.choice(RELEASES)
    if rng.random() < 0.5:
        use_case = rng.choice(list(USE_CASES))
        settle(card, rig, Requirements(USE_CASES[use_case], use_case), release)
        return
    config = EngineConfig(
        tensor_parallel_size=rng.choice((1, 2, rig.gpu_count)),
        pipeline_parallel_size=rng.choice((1, 1, 1, 2)),
        max_model_len=rng.choice((None, None, 1, 2048, 32768)),
        kv_cache_dtype=rng.choice(("auto", "auto", "fp8")),
    )
    memory = plan_memory(card, rig, config, vllm=release)
    assert memory.kv_cache_low.num_blocks <= memory.kv_cache_high.num_blocks
    assert 0 <= memory.starts.chance_of_refusal <= 1


@pytest.mark.parametrize("seed", range(10))
def test_a_changed_model_is_planned_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    slowest = 0.0
    for _ in range(CHECKPOINTS_PER_SEED):
        checkpoint = changed(rng)
        try:
            card = checkpoint.card()
        except CardError:
            continue
        began = time.process_time()
        try:
            plan(card, rng)
        except PlanError as error:
            if not str(error).isprintable():
                pytest.fail(f"{checkpoint.what}: {error!r}")
        except Exception as error:
            pytest.fail(f"{checkpoint.what}: {type(error).__name__}: {error}")
        slowest = max(slowest, time.process_time() - began)
    assert slowest < 1.0


def test_weights_in_fewer_bits_than_any_format_that_is_ranked(
    tmp_path: Path, vplan_here: Vplan
) -> None:
    """GPTQ of two bits: a large model's copies in other formats are looked at too."""
    model_id = "Qwen/Qwen3-235B-A22B-GPTQ-Int4"
    found = bundled_config(model_id)
    assert found is not None
    values = {key: found[0].raw(key) for key in found[0]}
    values["quantization_config"] = {**values["quantization_config"], "bits": 2}
    (tmp_path / "config.json").write_text(json.dumps(values))
    said = vplan_here("recommend", "--gpu", "h100", "--model", str(tmp_path))
    assert said.status in (0, 1, 2, 3)
    assert "Traceback" not in said.err
