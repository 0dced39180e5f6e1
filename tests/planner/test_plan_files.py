"""Plan files on the command line: they stand for the options and the command they were made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Vplan

from planner import EngineConfig
from planner.plan_file import read_plan, write_plan
from planner.settings import Settings

PLAN = Settings(
    "2x3090", "Qwen/Qwen3-14B", "0.19.1",
    EngineConfig(tensor_parallel_size=2, max_model_len=16384, kv_cache_dtype="fp8"),
    "code", 4,
)  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.yaml"
    write_plan(path, PLAN)
    assert read_plan(path) == PLAN
    return str(path)


def test_check_judges_the_launch_of_a_plan(plan: str, vplan_here: Vplan) -> None:
    filed = vplan_here("check", "--json", "--plan", plan)
    typed = vplan_here(
        "check", "--json", "--gpu", "2x3090", "--vllm-version", "0.19.1", "--", "vllm", "serve",
        "Qwen/Qwen3-14B", "--tensor-parallel-size", "2", "--max-model-len", "16384",
        "--kv-cache-dtype", "fp8",
    )  # fmt: skip
    assert filed.status == typed.status == 0
    assert json.loads(filed.out) == json.loads(typed.out)
    elsewhere = vplan_here("check", "--json", "--plan", plan, "--gpu", "2xt4")
    assert json.loads(elsewhere.out)["rig"]["spec"] == "2xt4"


def test_recommend_takes_its_questions_from_a_plan(plan: str, vplan_here: Vplan) -> None:
    filed = json.loads(vplan_here("recommend", "--json", "--plan", plan).out)
    typed = vplan_here(
        "recommend", "--json", "--gpu", "2x3090", "--model", "Qwen/Qwen3-14B", "--vllm-version",
        "0.19.1", "--use-case", "code", "--concurrency", "4", "--context", "16384",
    )  # fmt: skip
    assert filed == json.loads(typed.out)
    other = vplan_here("recommend", "--json", "--plan", plan, "-n", "1", "--context", "8192")
    changed = json.loads(other.out)
    assert changed["workload"]["concurrency"] == 1
    lengths = [_option(run["plan"]["command"]["argv"]) for run in (filed, changed)]
    assert lengths == ["16384", "8192"]


def _option(argv: list[str]) -> str:
    return argv[argv.index("--max-model-len") + 1]


def test_what_is_no_plan_is_one_line(tmp_path: Path, plan: str, vplan_here: Vplan) -> None:
    (tmp_path / "bad.yaml").write_text("hello", "utf-8")
    for words in (
        ("check", "--plan", str(tmp_path / "no.yaml")),
        ("check", "--plan", str(tmp_path / "bad.yaml")),
        ("check", "--plan", plan, "--", "vllm", "serve", "Qwen/Qwen3-8B"),
        ("recommend", "--plan", str(tmp_path / "bad.yaml")),
    ):
        run = vplan_here(*words)
        assert (run.status, run.out, run.err.count("\n")) == (2, "", 1), run
