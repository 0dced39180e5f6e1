"""What earlier runs taught: the arithmetic, the plans that use it, the store, the command."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
from pathlib import Path

import jsonschema
import pytest
from program import Vplan

from hardware_db import find_rig
from model_cards import open_card
from planner import EngineConfig, MemoryPlan, plan_memory
from planner.calibration import (
    Calibration,
    Lesson,
    Observation,
    Term,
    calibrate_process,
    calibrated_by,
    formula,
    reload,
    shrunk,
    store_path,
)
from planner.calibration_store import (
    CalibrationStore,
    Run,
    StoreError,
    exported,
    imported,
)
from planner.errors import PlanError
from planner.quantity import BAND_SIGMAS, Basis
from planner.speed.serving import SpeedEstimate, predict_speed
from planner.workload import Workload

GIB = 2**30


def outside_torch(gib: float) -> Observation:
    return Observation(Term.OUTSIDE_TORCH, "non_torch_gib", gib * GIB, 0.25 * GIB, formula())


def lesson(*seen: Observation, gpu: str = "rtx-4090", release: str = "0.33.0") -> Lesson:
    return Lesson(gpu, release, seen)


def plan(gpu: str = "4090", release: str = "0.33.0") -> MemoryPlan:
    card = open_card("Qwen/Qwen3-8B", offline=True)
    return plan_memory(card, find_rig(gpu), EngineConfig(max_model_len=8192), vllm=release)


def test_the_mean_of_two_normal_distributions() -> None:
    """By hand: prior N(1, 0.4), one run at 2 that scatters by half of that."""
    value, band = shrunk([2.0], 0.4 * BAND_SIGMAS)
    assert value == pytest.approx((1 / 0.16 + 2 / 0.04) / (1 / 0.16 + 1 / 0.04))
    assert band == pytest.approx(BAND_SIGMAS * (1 / (1 / 0.16 + 1 / 0.04) + 0.04) ** 0.5)


def test_more_runs_count_more() -> None:
    values = [shrunk([2.0] * count, 0.5) for count in (1, 2, 5, 20)]
    assert [value for value, _ in values] == sorted(value for value, _ in values)
    assert [band for _, band in values] == sorted((band for _, band in values), reverse=True)
    assert values[0][0] < 2
    assert values[-1][0] == pytest.approx(2, abs=0.01)
    agreeing, scattered = shrunk([1.9, 2.0, 2.1], 0.5), shrunk([1.0, 2.0, 3.0], 0.5)
    assert scattered[1] > agreeing[1]
    assert abs(scattered[0] - 1) < abs(agreeing[0] - 1)
    narrow, wide = shrunk([2.0], 0.05), shrunk([2.0], 1.0)
    assert narrow[1] < wide[1]


def test_a_plan_takes_it_into_account_and_says_so() -> None:
    before = plan()
    with calibrated_by(Calibration([lesson(outside_torch(0.6))])):
        after = plan()
        assert "corrected by an earlier run (vplan calibration list): memory outside torch" in (
            after.notes
        )
    taught = after.tightest.non_torch
    assert taught.basis is Basis.MEASURED
    assert 0.5 < taught.value / GIB < 0.6
    assert after.kv_tokens.value < before.kv_tokens.value
    assert plan() == before


@pytest.mark.parametrize(
    ("gpu", "release", "taught"),
    [
        ("4090", "0.33.0", True),
        ("3090", "0.33.0", False),
        ("4090", "0.19.1", False),  # fitted constants differ
        ("2x4090", "0.33.0", True),  # one of them is in use
    ],
)
def test_it_holds_for_the_gpu_and_releases_like_it(gpu: str, release: str, taught: bool) -> None:
    before = plan(gpu, release)
    with calibrated_by(Calibration([lesson(outside_torch(0.6))])):
        assert (plan(gpu, release) != before) is taught


def test_factors_end_with_their_formula() -> None:
    seen = Observation(Term.ACTIVATION, "Qwen3ForCausalLM", 2.0, 1.0, formula())
    before = plan().tightest.activation
    with calibrated_by(Calibration([lesson(seen)])):
        after = plan().tightest.activation
        assert 1.5 < after.value / before.value < 2
    for other in (
        Observation(Term.ACTIVATION, "LlamaForCausalLM", 2.0, 1.0, formula()),
        Observation(Term.ACTIVATION, "Qwen3ForCausalLM", 2.0, 1.0, "older"),
        Observation(Term.ACTIVATION, "Qwen3ForCausalLM", 2.0, 0.0, formula()),
    ):
        with calibrated_by(Calibration([lesson(other)])):
            assert plan().tightest.activation == before


def test_graphs_and_context() -> None:
    taught = lesson(
        Observation(Term.CUDA_GRAPHS, "", 1.5, 1.0, formula()),
        Observation(Term.CONTEXT, "one rank", 0.7 * GIB, 0.45 * GIB, formula()),
    )
    before = plan()
    with calibrated_by(Calibration([taught])):
        after = plan()
    assert after.tightest.cuda_graphs.value > before.tightest.cuda_graphs.value
    assert after.start.margin.value < before.start.margin.value


def test_speed() -> None:
    """No token takes less time than its bytes."""
    workload = Workload(1024, 256)
    before = predict_speed(plan(), workload)
    assert before.ttft is not None

    def taught(factor: float) -> SpeedEstimate:
        seen = [
            Observation(term, "16bit", factor * 0.02, 0.02, formula())
            for term in (Term.TPOT, Term.TTFT)
        ]
        with calibrated_by(Calibration([lesson(*seen)])):
            return predict_speed(plan(), workload)

    slower = taught(1.5)
    assert 1.2 < slower.tpot.value / before.tpot.value < 1.5
    assert slower.per_user.value == 1 / slower.tpot.value
    assert slower.tpot.basis is Basis.MEASURED
    assert slower.ttft is not None
    assert slower.ttft.value > before.ttft.value
    assert taught(0.01).tpot.value >= 1 / before.ceiling_per_user


def test_a_process_uses_it_in_all_threads_and_loads_it_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    loads = []

    def load() -> Calibration:
        loads.append(1)
        return Calibration([lesson(outside_torch(0.6))])

    before = plan()
    with calibrate_process(load), ThreadPoolExecutor(1) as threads:
        assert threads.submit(plan).result() != before
        assert plan() != before
        with calibrated_by(None):
            assert plan() == before
        assert len(loads) == 1
        reload()
        assert plan() != before
        assert len(loads) == 2
    assert plan() == before


def run(uid: str = "a", gib: float = 0.6) -> Run:
    seen = (outside_torch(gib),)
    return Run("2026-01-01T00:00:00+00:00", "rtx-4090", "0.33.0", "m", "inside", "vllm", seen, uid)


def test_the_store_keeps_runs(tmp_path: Path) -> None:
    store = CalibrationStore(tmp_path / "deep" / "store")
    assert store.runs() == []
    assert not (tmp_path / "deep").exists()
    assert store.add([run("a"), run("b")]) == 2
    assert store.add([run("a"), run("c")]) == 1
    runs = store.runs()
    assert [(each.number, each.uid) for each in runs] == [(1, "a"), (2, "b"), (3, "c")]
    assert runs[0].observations == run().observations
    assert store.calibration().runs("rtx-4090", plan().release) == 3
    assert store.forget([2, 9]) == 1
    assert [each.number for each in store.runs()] == [1, 3]
    assert store.forget(None) == 2
    assert store.add([run("d")]) == 1
    assert store.runs()[0].number == 4  # numbers are not given twice


def test_all_or_none_is_kept(tmp_path: Path) -> None:
    store = CalibrationStore(tmp_path / "store")

    def broken():  # type: ignore[no-untyped-def]
        yield run("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(broken())
    assert store.runs() == []


def _write(path: str, name: str) -> None:
    for number in range(10):
        CalibrationStore(Path(path)).add([run(f"{name}-{number}")])


def test_many_writers_at_once(tmp_path: Path) -> None:
    """Also on a file that is not there yet."""
    context = multiprocessing.get_context("spawn")
    path = str(tmp_path / "store")
    writers = [context.Process(target=_write, args=(path, str(n))) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len({each.uid for each in CalibrationStore(tmp_path / "store").runs()}) == 30


@pytest.mark.parametrize("damage", ["other", "cut", "overwritten"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store"
    store = CalibrationStore(path)
    store.add(run(str(number)) for number in range(200))
    content = path.read_bytes()
    broken = {
        "other": b"this is no database, whatever its name says" * 100,
        "cut": content[: len(content) // 2],
        "overwritten": content[:4096] + os.urandom(len(content) - 4096),
    }[damage]
    path.write_bytes(broken)
    told: list[str] = []
    again = CalibrationStore(path, lambda: [run("from a report")], told.append)
    assert again.add([run("new")]) == 1
    assert [each.uid for each in again.runs()] == ["from a report", "new"]
    (aside,) = tmp_path.glob("store.damaged-*")
    assert aside.read_bytes() == broken
    assert len(told) == 1
    assert aside.name in told[0]


def test_a_file_of_a_newer_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    CalibrationStore(path).add([run()])
    base = sqlite3.connect(path)
    base.execute("PRAGMA user_version = 2")
    base.commit()
    base.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer vplan"):
        CalibrationStore(path).add([run("b")])
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        CalibrationStore(tmp_path / "file" / "store").add([run()])


def test_export_and_import() -> None:
    runs = imported(exported([run("a"), run("b", 0.5)]), "other machine")
    assert [each.observations for each in runs] == [run().observations, run("b", 0.5).observations]
    assert {each.source for each in runs} == {"other machine"}
    for text in ("", "[]", "[" * 9999, '{"kind": "calibration"}',
                 '{"kind": "x", "schema_version": 1}'):  # fmt: skip
        with pytest.raises(PlanError, match="no export"):
            imported(text, "file")


def test_the_command(vplan_here: Vplan, tmp_path: Path) -> None:
    assert "Nothing was learned yet" in vplan_here("calibration", "list").out
    assert vplan_here("calibration").out == vplan_here("calibration", "list").out
    file = tmp_path / "runs.json"
    file.write_text(exported([run("a"), run("b")]))
    assert vplan_here("calibration", "import", str(file)).out == "2 of 2 runs were new.\n"
    assert vplan_here("calibration", "import", str(file)).out == "0 of 2 runs were new.\n"
    listed = vplan_here("calibration", "list").out
    assert "rtx-4090, vLLM 0.33.0 and those like it: memory outside torch (2 runs)" in listed
    shown = vplan_here("calibration", "show", "1").out
    assert "0.25 GiB  0.60 GiB  x 2.40" in shown
    assert "From runs.json." in shown
    check = ("check", "--gpu", "4090", "--vllm-version", "0.33.0", "--", "vllm", "serve",
             "Qwen/Qwen3-8B", "--max-model-len", "8192")  # fmt: skip
    assert "corrected by 2 earlier runs" in " ".join(vplan_here(*check).out.split())
    printed = json.loads(vplan_here("calibration", "list", "--json").out)
    jsonschema.validate(printed, json.loads(vplan_here("schema", "calibration").out))
    assert len(printed["runs"]) == 2
    again = vplan_here("calibration", "export", str(tmp_path / "again.json"))
    assert again.status == 0
    assert json.loads((tmp_path / "again.json").read_text())["runs"][1]["uid"] == "b"
    assert vplan_here("calibration", "export", str(tmp_path / "again.json")).status == 2
    assert vplan_here("calibration", "forget", "2").out == "Forgot 1 run.\n"
    assert "no run 2; the runs: 1" in vplan_here("calibration", "show", "2").err
    assert vplan_here("calibration", "forget").status == 2
    assert vplan_here("calibration", "forget", "--all").status == 0
    assert "corrected" not in vplan_here(*check).out


def test_text_that_is_none_in_a_file_that_is_whole(tmp_path: Path) -> None:
    """SQLite looks at its pages, not at what a text is made of."""
    path = tmp_path / "calibration.sqlite3"
    CalibrationStore(path).add([run()])
    path.write_bytes(path.read_bytes().replace(b"inside", b"ins\x9ade"))
    (kept,) = CalibrationStore(path).runs()
    assert kept.verdict == "ins\ufffdde"


NO_RUNS = [
    ("run", "release", "x"), ("run", "release", "0.1.0"), ("run", "began", b"\xff"),
    ("run", "gpu", b""), ("observation", "measured", "much"), ("observation", "measured", b"\x00"),
    ("observation", "measured", float("inf")), ("observation", "measured", -1e300),
    ("observation", "fitted", 5e-324), ("observation", "subject", b"\xff"),
    ("observation", "formula", b""),
]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), NO_RUNS)
def test_values_that_no_run_has_are_damage(
    vplan_here: Vplan, table: str, column: str, value: object
) -> None:
    """A file that is whole for SQLite, whose columns take values of any type."""
    CalibrationStore().add([run("a"), run("b")])
    with sqlite3.connect(store_path()) as base:
        base.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (value,))
    base.close()
    listed = vplan_here("calibration", "list")
    assert (listed.status, listed.out) == (0, "Nothing was learned yet: vplan validate teaches.\n")
    assert "was damaged and is now calibration.sqlite3.damaged-" in listed.err
    assert listed.err.count("\n") == 1


@pytest.mark.parametrize(
    "seen",
    [{"measured": 10**400}, {"measured": 10**59}, {"measured": float("inf")}, {"measured": "x"},
     {"fitted": float("nan")}, {"fitted": 1e-300}, {"fitted": None}, {"term": "x"}, {"term": []}],
    ids=str,
)  # fmt: skip
def test_values_that_no_run_has_are_not_imported(seen: dict[str, object]) -> None:
    rows = json.loads(exported([run()]))
    rows["runs"][0]["observations"][0] |= seen
    with pytest.raises(PlanError, match="file is no export of vplan calibration"):
        imported(json.dumps(rows), "file")


def test_values_that_no_run_has_are_not_kept(tmp_path: Path) -> None:
    store = CalibrationStore(tmp_path / "store", lambda: [run("a"), run("b", float("nan"))])
    with pytest.raises(StoreError, match="not kept"):
        store.add([run("c"), run("d", 1e30)])
    assert store.runs() == []
    (tmp_path / "store").write_text("damaged")
    assert [each.uid for each in store.runs()] == ["a"]


def test_a_damaged_store_spoils_no_plan(vplan_here: Vplan, tmp_path: Path) -> None:
    path = store_path()
    path.parent.mkdir(parents=True)
    path.write_text("no database" * 1000)
    check = ("check", "--gpu", "4090", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len",
             "8192")  # fmt: skip
    run = vplan_here(*check)
    assert run.status == 0
    assert "was damaged and is now calibration.sqlite3.damaged-" in run.err
    assert vplan_here(*check).err == ""
