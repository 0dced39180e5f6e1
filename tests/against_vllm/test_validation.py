"""`vplan validate` with the real vLLM: what it reports, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from vllm_folders import make_folder

from planner.launch.facts import FailureKind, Milestone
from planner.launch.log import read_log
from planner.launch.watchdog import descendants

pytestmark = pytest.mark.vllm

VPLAN = str(Path(sys.executable).with_name("vplan"))
VLLM = str(Path(sys.executable).with_name("vllm"))
SECONDS = 400
SETTINGS = ("--load-format", "dummy", "--enforce-eager", "--max-model-len", "4096")
CACHE = ("--kv-cache-memory-bytes", str(96 * 2**20))


@pytest.fixture
def environ(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    return kept | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(tmp_path_factory.getbasetemp() / "vllm"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def all_end(pids: list[int], within: float) -> bool:
    until = time.monotonic() + within
    while any(runs(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def vllm_processes() -> set[int]:
    """Servers, and the engines and workers that go by a name of their own."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            if words.startswith(b"VLLM::") or b"vllm.entrypoints" in words:
                found.add(int(folder.name))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = vllm_processes()
    yield
    assert vllm_processes() <= before


@pytest.mark.parametrize("model", ["llama", "gemma3"])
def test_the_plan_is_what_vllm_allocates(
    model: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = make_folder(tmp_path, model)
    command = (VLLM, "serve", str(folder), *SETTINGS, *CACHE)
    run = subprocess.run(
        [VPLAN, "validate", "--json", "--timeout", str(SECONDS), "--", *command],
        capture_output=True,
        text=True,
        env=environ,
    )
    assert run.returncode == 0, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    assert report["verdict"] == "inside"
    terms = {term["name"]: term for term in report["terms"]}
    for name in ("KV blocks", "block size", "KV tokens", "concurrency", "context length"):
        term = terms[name]
        assert term["plan"]["basis"] == "exact", name
        assert term["measured"] == term["plan"]["value"], name
    assert [answer["output_tokens"] for answer in report["completions"]] == [32] * 4
    assert report["facts"]["kv_tokens"] == terms["KV tokens"]["measured"]
    assert report["facts"]["vllm"] == "0.32.0"
    assert report["facts"]["milestones"][-1]["name"] == "stopped"


def test_a_launch_that_vllm_refuses(tmp_path: Path, environ: dict[str, str]) -> None:
    """For a reason that no plan can see: a model without a tokenizer."""
    folder = make_folder(tmp_path, "llama")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    run = subprocess.run(
        [VPLAN, "validate", "--json", "--", VLLM, "serve", str(folder), *SETTINGS, *CACHE],
        capture_output=True,
        text=True,
        env=environ,
    )
    assert run.returncode == 4, run.stderr
    failure = json.loads(run.stdout)["failure"]
    assert failure["kind"] == FailureKind.TOKENIZER.value, failure


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_vplan(
    number: signal.Signals, tmp_path: Path, environ: dict[str, str]
) -> None:
    """Once its engine and its workers are there."""
    folder = make_folder(tmp_path, "llama")
    vplan = subprocess.Popen(
        [VPLAN, "validate", "--", VLLM, "serve", str(folder), *SETTINGS, *CACHE],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ,
    )
    try:
        until = time.monotonic() + SECONDS
        while not _is_loading(tmp_path):
            assert vplan.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        everyone = [process.pid for process in descendants(vplan.pid)]
        assert len(everyone) >= 4  # watchdog, server, engine, worker
        vplan.send_signal(number)
        assert vplan.wait(30) != 0
        assert all_end(everyone, 10)
    finally:
        vplan.kill()
        vplan.wait()


def _is_loading(run: Path) -> bool:
    """Whether the worker is there and has begun."""
    logs = list(run.glob("data/vplan/launches/*/server.log"))
    if not logs:
        return False
    reached = read_log(logs[0].read_text(errors="replace").splitlines())[0].reached
    return reached is not None and reached >= Milestone.LOADING
