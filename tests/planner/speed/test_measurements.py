"""Predicted speeds against published measurements (tests/data/measurements.jsonl)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fit_speed import fit, nested, shortest
from speed_accuracy import figures, left_out, report, score
from speed_plans import Measured, measured, tpot
from speed_rows import read_rows, release_of, row_of

from planner.speed.constants import speed_constants, speed_data

DATA = Path(__file__).parents[2] / "data" / "measurements.jsonl"
ROWS = [row for row in read_rows(DATA) if row.scored]


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    return report(*score(ROWS))


def test_every_row_is_predicted(answer: dict[str, Any]) -> None:
    assert answer["rows"] == len(ROWS) > 600
    assert answer["coverage"] == 1


def test_errors_stay_within_the_bars(answer: dict[str, Any]) -> None:
    assert answer["tpot_median_abs_pct"] <= 10
    assert answer["batch1_dense_median_abs_pct"] <= 7
    assert answer["batch1_dense_p90_abs_pct"] <= 22
    assert answer["groups"]["MoE under concurrency"]["median_abs_pct"] <= 17
    assert answer["groups"]["above 64 streams"]["median_abs_pct"] <= 17


def test_nine_of_ten_lie_inside_their_bands(answer: dict[str, Any]) -> None:
    assert 0.85 <= answer["band90_coverage"] <= 0.95


def test_the_shipped_constants_are_those_of_the_fit() -> None:
    """A quarter of the rows gives much the same constants: no few of them decide."""
    rows = [one for row in ROWS if isinstance(one := measured(row), Measured)]
    sound = [row for row in rows if row.doubtful is None]
    again = nested(fit(sound[::4], rounds=3))
    for name in ("layer_seconds", "kv_efficiency", "expert_factor", "legacy_step_seconds"):
        assert again[name] == pytest.approx(speed_constants()[name], rel=0.2)
    # Four are Mixtral on MI250 with a vLLM of 2024, which did not yet move rows of experts apart.
    assert len(rows) - len(sound) == 29


def test_a_source_left_out_is_predicted_by_the_others() -> None:
    """QwenLM's 99 rows, all of one card and engine, from 30 rows of each other source."""
    held: dict[str, int] = {}
    some = []
    for row in ROWS:
        held[row.source] = held.get(row.source, 0) + 1
        if held[row.source] <= 30 or row.source.startswith("QwenLM"):
            some.append(row)
    constants = left_out(some)
    mine = [row for row in some if row.source.startswith("QwenLM")]
    scored, _ = score(mine, constants)
    assert len(scored) == 99
    assert figures(scored)["median_abs_pct"] <= 11
    assert constants(scored[0].measured) is not speed_constants()


def test_every_constant_has_its_source_and_band() -> None:
    for name, entry in speed_data()["constants"].items():
        assert entry["source"], name
        assert entry["band"] > 0, name
        assert entry["rows"] > 0 or entry["value"] == entry["start"] or name == "rocm_factor"


@pytest.mark.parametrize(
    ("text", "release"),
    [("0.19.0", "0.19.0"), ("0.6.3", "0.8.5"), ("2024 (not recorded per row)", "0.8.5"),
     ("Dec-2025 (not recorded)", "0.12.0"), ("patched 0.2x", "0.20"), ("Jun 2026", "0.24.0"),
     ("nightly", None), ("", None), ("_posts@c3a01c4 2026-07-27-k3", "0.24.0")],
)  # fmt: skip
def test_releases_of_what_people_write(text: str, release: str | None) -> None:
    assert release_of(text) == release


def test_a_row_as_a_launch() -> None:
    row = row_of(
        {"source": "s", "engine": "vLLM", "engine_version": "0.6.3", "gpu_slug": "h100-sxm",
         "n_gpus": 2, "tp": 2, "repo_id": "meta-llama/Llama-3.1-8B-Instruct", "quant": "fp16",
         "kv_dtype": "bf16", "concurrency": 2.5, "isl": 1000, "osl": 100, "mode": "online",
         "out_tok_s_user": 50, "cuda_graphs": False, "notes": "mean about 0.9x"}
    )  # fmt: skip
    assert row.legacy
    assert row.scored
    assert row.tpot == pytest.approx(0.02)
    assert (row.workload.prompt_tokens, row.workload.output_tokens, row.users) == (900, 90, 2.5)
    assert row.settings.enforce_eager
    assert row.settings.tensor_parallel_size == 2
    one = measured(row)
    assert isinstance(one, Measured)
    assert tpot(one) > 0.005


def test_what_is_not_scored() -> None:
    base = {"engine": "vLLM", "mode": "online", "concurrency": 1, "tpot_ms": 10,
            "repo_id": "Qwen/Qwen3-8B", "gpu_slug": "rtx-4090"}  # fmt: skip
    assert row_of(base).scored
    for change in (
        {"engine": "SGLang"},
        {"mode": "offline"},
        {"spec": {"method": "eagle"}},
        {"concurrency": 512},
        {"concurrency": None},
        {"tpot_ms": None},
    ):
        assert not row_of(base | change).scored


def test_the_shortest_interval_leaves_out_what_lies_far() -> None:
    assert shortest([1.0, 1.1, 0.9, 1.0, 1.05, 1.0, 0.95, 1.0, 1.0, 9.0], 0.9) == (0.9, 1.1)
