"""Two plans side by side: numbers are those of the plans, and only what differs is a setting."""

from __future__ import annotations

import json

import pytest
from launches import bundled
from program import Vplan

from hardware_db import find_rig
from planner import Requirements, Workload, compare_plans, plan_memory
from planner.comparison import Comparison, command_side, recommended_side
from planner.engine.releases import find_release
from planner.engine_config import EngineConfig
from planner.memory.verdict import Answer

WANTED = Requirements(Workload(1024, 384), "chat")
RELEASE = find_release("0.33.0")


def models(one: str, other: str, rig: str = "4090") -> Comparison:
    sides = [
        recommended_side(name, bundled(name), find_rig(rig), WANTED, RELEASE)
        for name in (one, other)
    ]
    return compare_plans(*sides)


def test_numbers_are_those_of_the_plans() -> None:
    found = models("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-AWQ")
    rows = {row.name: row for row in found.rows}
    for side, values in ((found.one, "one"), (found.other, "other")):
        assert side.memory is not None
        assert side.speed is not None
        assert getattr(rows["weights"], values) == side.memory.tightest.weights
        assert getattr(rows["KV tokens"], values) == side.memory.kv_tokens
        assert getattr(rows["for each user"], values) == side.speed.per_user
    # 16 bits against 4 and some scales, with embeddings and head in 16 bits in both.
    weights = rows["weights"].change
    assert weights is not None
    assert -0.75 < weights < -0.55
    assert {row.name for row in found.rows if row.change == 0} >= {"memory of a GPU"}


def test_caches_of_replicas_are_counted_together() -> None:
    """Eight replicas of one GPU hold eight times what one does."""
    text, rig = "vllm serve Qwen/Qwen3-8B --max-model-len 16384", find_rig("8xh100-sxm")
    one = command_side("A", text, find_rig("h100-sxm"), WANTED, "0.33.0")
    other = command_side("B", f"{text} --data-parallel-size 8", rig, WANTED, "0.33.0")
    rows = {row.name: row for row in compare_plans(one, other).rows}
    for name in ("KV tokens", "requests of full length"):
        assert rows[name].change == pytest.approx(7)


def test_what_does_not_fit_says_so() -> None:
    found = models("Qwen/Qwen3-8B", "Qwen/Qwen3-14B")
    assert found.one.starts is Answer.YES
    assert found.other.starts is Answer.NO
    assert "available" in found.other.problem
    rows = {row.name: row for row in found.rows}
    assert rows["KV tokens"].other is None
    assert rows["KV tokens"].change is None


def test_commands_differ_where_they_are_written_differently() -> None:
    rig = find_rig("4090")
    text = "vllm serve Qwen/Qwen3-14B-AWQ --max-model-len 16384"
    one = command_side("A", text, rig, WANTED, "0.33.0")
    other = command_side("B", f"{text} --kv-cache-dtype fp8", rig, WANTED, "0.33.0")
    found = compare_plans(one, other)
    assert [each.setting for each in found.differences] == ["kv_cache_dtype"]
    halved = plan_memory(
        bundled("Qwen/Qwen3-14B-AWQ"), rig,
        EngineConfig(max_model_len=16384, kv_cache_dtype="fp8"), vllm="0.33.0",
    )  # fmt: skip
    assert other.memory is not None
    assert other.memory.kv_tokens == halved.kv_tokens
    rows = {row.name: row for row in found.rows}
    assert rows["KV tokens"].change == pytest.approx(1.0, abs=0.01)


def test_defaults_that_releases_changed_are_differences() -> None:
    card, rig = bundled("Qwen/Qwen3-14B-AWQ"), find_rig("4090")
    sides = [
        recommended_side(name, card, rig, WANTED, find_release(name))
        for name in ("0.19.1", "0.33.0")
    ]
    found = {each.setting: (each.one, each.other) for each in compare_plans(*sides).differences}
    assert found["gpu_memory_utilization"] == ("0.9", "0.92")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-AWQ", "--gpu", "4090"), 0),
     (("4090", "5090", "--model", "Qwen/Qwen3-14B", "--context", "32k"), 1),
     (("0.19.1", "0.33.0", "--model", "Qwen/Qwen3-8B", "--gpu", "4090"), 0),
     (("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "vllm serve Qwen/Qwen3-8B -tp 2",
       "--gpu", "4090"), 1)],
)  # fmt: skip
def test_what_can_be_compared(vplan_here: Vplan, arguments: tuple[str, ...], status: int) -> None:
    run = vplan_here("compare", *arguments)
    assert run.status == status
    assert "weights" in run.out
    assert bool(run.err) == bool(status)
    rows = json.loads(vplan_here("compare", *arguments, "--json").out)["rows"]
    assert {"weights", "quality"} <= {row["name"] for row in rows}


@pytest.mark.parametrize(
    "arguments",
    [("Qwen/Qwen3-8B",), ("nobody/no-model", "Qwen/Qwen3-8B", "--gpu", "4090"),
     ("4090", "5090", "--model", "Qwen/Qwen3-8B", "--gpu", "4090"),
     ("4090", "no such card", "--model", "Qwen/Qwen3-8B"), ("0.19.1", "0.33.0")],
)  # fmt: skip
def test_what_cannot(vplan_here: Vplan, arguments: tuple[str, ...]) -> None:
    run = vplan_here("compare", *arguments)
    assert (run.status, run.out) == (2, "")
    assert run.err.count("\n") == 1
