"""Plans against published launches (tests/data/launches.jsonl), and the constants fitted there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fit_constants import ENOUGH, RANGES, implied, table_of
from launch_accuracy import figures, score
from launch_folds import folds, largest, programme_left_out
from launch_plans import answer_of
from launch_rows import Launch, launch_of, read_launches
from launches import plan

from planner.engine.releases import find_release, release_key
from planner.memory.constants import constant, shipped_constants, with_constants
from planner.quantity import Basis

DATA = Path(__file__).parent.parent / "data" / "launches.jsonl"


@cache
def published() -> tuple[Launch, ...]:
    return tuple(read_launches(DATA))


@cache
def headline() -> tuple[Launch, ...]:
    return tuple(launch for launch in published() if launch.headline)


# As printed at start-up, in GiB: loading took, peak activation, available KV cache.
# Sources: jgchn/llm-d-planner accuracy/results/v0.19.0/results_raw.csv@a95e9f6 and
# accuracy/accuracy_report.md@151baf3; llm-d-incubation/llm-d-planner
# docs/empirical-vllm-memory-results.md@e50305a; vllm-project/vllm#10517.
H100 = {"gpu_memory_utilization": 0.95, "max_model_len": 8192}
PUBLISHED: list[tuple[str, str, str, dict[str, Any], float, float, float]] = [
    ("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm", "0.19.0", H100, 14.99, 1.89, 58.11),
    ("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm", "0.19.0",
     {**H100, "dtype": "float32"}, 29.98, 2.21, 42.80),
    ("meta-llama/Llama-3.1-8B-Instruct", "4xh100-sxm", "0.19.0",
     {**H100, "tensor_parallel_size": 4}, 3.77, 1.89, 67.44),
    ("meta-llama/Llama-3.1-8B-Instruct", "2xh100-sxm", "0.19.0",
     {**H100, "pipeline_parallel_size": 2}, 7.51, 1.10, 66.54),
    ("codellama/CodeLlama-7b-hf", "h100-sxm", "0.19.0", H100, 12.56, 0.77, 61.66),
    ("ibm-granite/granite-3.1-8b-instruct", "h100-sxm", "0.19.0", H100, 15.25, 0.85, 58.66),
    ("google/gemma-3-27b-it", "h100-sxm", "0.19.0", H100, 51.45, 3.99, 19.53),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "2xh100-sxm", "0.19.0",
     {**H100, "tensor_parallel_size": 2}, 43.51, 1.21, 28.44),
    ("Qwen/Qwen3-30B-A3B", "h100-sxm", "0.19.0", H100, 56.88, 2.68, 15.41),
    ("Qwen/Qwen2.5-72B-Instruct", "2xh100-sxm", "0.19.0",
     {**H100, "tensor_parallel_size": 2}, 67.80, 2.29, 3.04),
    ("Qwen/Qwen3-14B", "h100-sxm", "0.16.0", H100, 27.52, 5.64, 41.94),
    ("Qwen/Qwen3-14B", "h100-sxm", "0.17.0", H100, 27.52, 2.23, 45.34),
    ("Qwen/Qwen3-32B", "2xh100-sxm", "0.11.0",
     {"gpu_memory_utilization": 0.9, "max_model_len": 16000, "tensor_parallel_size": 2},
     30.59, 5.64, 34.49),
    ("meta-llama/Llama-3.1-8B-Instruct", "3090", "0.9.1",
     {"gpu_memory_utilization": 0.9, "max_model_len": 20000, "max_num_seqs": 256,
      "max_num_batched_tokens": 20000}, 14.99, 2.07, 3.81),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "rig", "release", "settings", "weights", "activation", "pool"), PUBLISHED
)
def test_plans_are_what_vllm_printed(
    model: str,
    rig: str,
    release: str,
    settings: dict[str, Any],
    weights: float,
    activation: float,
    pool: float,
) -> None:
    told = answer_of(plan(model, rig, release, **settings))
    assert told.weights is not None
    assert told.activation is not None
    assert told.kv_cache is not None
    assert told.weights.value == pytest.approx(weights, rel=0.005)
    assert told.activation.value == pytest.approx(activation, rel=0.05)
    assert told.kv_cache.value == pytest.approx(pool, rel=0.01, abs=0.4)


def test_constants_are_well_formed() -> None:
    table = shipped_constants()
    assert set(table) == set(RANGES)
    for name, rows in table.items():
        since = [release_key(row["since"]) for row in rows]
        assert since == sorted(set(since)), name
        assert since[0] == release_key("0.8.5"), name
        for row in rows:
            assert row["value"] > 0, name
            assert 0 < row["band"] <= 1, name
            assert row["source"], name
            assert (row["basis"] == "calibrated") == (row["n"] >= ENOUGH), name


def test_constants_are_those_of_the_launches() -> None:
    fitted = json.loads(json.dumps(table_of(implied(published()))))
    assert fitted == shipped_constants()


def test_a_constant_is_an_estimate_on_gpus_that_no_launch_ran_on() -> None:
    release = find_release("0.19.0")
    here = constant("non_torch_gib", release, "h100-sxm")
    elsewhere = constant("non_torch_gib", release, "rtx-4090")
    assert here.basis is Basis.CALIBRATED
    assert elsewhere.basis is Basis.ESTIMATED
    assert elsewhere.value == here.value
    assert elsewhere.high > here.high


def test_other_constants_hold_only_inside() -> None:
    release = find_release("0.19.0")
    shipped = constant("moe_workspaces", release).value
    changed = {
        name: [{**row, "value": 2.0} for row in rows] for name, rows in shipped_constants().items()
    }
    with with_constants(changed):
        assert constant("moe_workspaces", release).value == 2.0
    assert constant("moe_workspaces", release).value == shipped


def test_what_an_architecture_says_of_itself_is_not_needed() -> None:
    """The bars of H100, 0.17 to 0.19, with room: 2 % of the pool, 8 % for 19 of 20."""
    scored, _ = score(headline(), folds(headline()))
    programme = [row for row in scored if row.launch.source_group == largest(headline())]
    found = figures([row for row in programme if row.launch.stated])
    assert len(programme) >= 48
    assert found["weights_mean_abs_pct"] <= 0.5
    assert found["kv_mean_abs_pct"] <= 0.6
    assert found["kv_p95_abs_pct"] <= 2.0
    assert found["kv_small_mean_abs_gib"] <= 0.2
    assert found["kv_optimistic_over_3pct"] == 0
    assert found["outcome_accuracy"] == 1.0
    assert found["false_starts"] == 0
    assert 0.85 <= found["band90_coverage"] <= 0.97


def test_the_programme_is_not_needed_either() -> None:
    scored, _ = score(*programme_left_out(headline()))
    found = figures(scored)
    assert found["kv_mean_abs_pct"] <= 0.6
    assert found["kv_p95_abs_pct"] <= 2.0


def test_bands_hold_nine_launches_of_ten() -> None:
    scored, missing = score(headline(), folds(headline()))
    found = figures(scored)
    assert 0.85 <= found["band90_coverage"] <= 0.95
    # 74 of 76 pools: a band that holds 95 of 100 holds as many in one of four such samples.
    assert 0.85 <= found["kv_band90_coverage"] <= 0.975
    assert len(scored) + len(missing) == len(headline())


def test_rows_without_a_release_are_planned_over_those_of_their_source() -> None:
    by_id = {launch.case_id[:6]: launch for launch in published()}
    assert by_id["d2b0a0"].releases[0] == "0.20"
    assert by_id["d2b0a0"].releases[-1] == "0.27.1"
    assert len(by_id["49a147"].releases) > 1
    assert by_id["6dd8e8"].releases == ("0.13.0", "0.14.0", "0.14.1")  # its source has a date


def test_a_row_says_what_it_leaves_out() -> None:
    row = {"case_id": "x", "source": "s", "tier": "A", "model": "m", "gpu_kind": "T4",
           "outcome": "ok", "tp": 2, "other_flags": "kv-cache-memory-bytes 6 GiB"}  # fmt: skip
    launch = launch_of(row)
    assert launch.rig == "2xt4"
    assert launch.settings.kv_cache_memory_bytes == 6 * 2**30
    assert launch.settings.max_num_seqs is None
    assert not launch.batch_seen
    assert not launch.stated
