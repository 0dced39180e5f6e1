"""`vplan validate` with the real vLLM: what it reports, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from vllm_folders import add_weights, make_folder
from vllm_server import launch, serving

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


def vllm_processes(base: Path) -> set[int]:
    """Of these tests: servers, and the engines and workers that go by a name of their own."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            if not words.startswith(b"VLLM::") and b"vllm.entrypoints" not in words:
                continue
            if str(base).encode() in (folder / "environ").read_bytes():
                found.add(int(folder.name))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    before = vllm_processes(base)
    yield
    assert vllm_processes(base) <= before


Validate = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def validate(environ: dict[str, str]) -> Validate:
    """Runs `vplan validate`: its exit status, its report, what it said on stderr."""

    def run(
        folder: Path, *words: str, before: tuple[str, ...] = ("--requests", "0")
    ) -> tuple[int, dict[str, Any], str]:
        command = (VLLM, "serve", str(folder), *SETTINGS, *words)
        run = subprocess.run(
            [VPLAN, "validate", "--json", "--timeout", str(SECONDS), *before, "--", *command],
            capture_output=True,
            text=True,
            env=environ,
        )
        return run.returncode, json.loads(run.stdout), run.stderr

    return run


def assert_exact(report: dict[str, Any]) -> None:
    """Everything that vLLM counts out is what was planned."""
    assert report["verdict"] == "inside", report["terms"]
    terms = {term["name"]: term for term in report["terms"]}
    for name in ("KV blocks", "block size", "KV tokens", "concurrency", "context length"):
        term = terms[name]
        assert term["plan"]["basis"] == "exact", name
        assert term["measured"] == term["plan"]["value"], name
    first = [answer["output_tokens"] for answer in report["completions"]]
    assert first == [32] * len(first)
    assert len(first) == 4 or (report["levels"] and len(first) >= 2)  # fewer if they are slow
    assert report["facts"]["kv_tokens"] == terms["KV tokens"]["measured"]
    assert report["facts"]["vllm"] == "0.32.0"
    assert report["facts"]["milestones"][-1]["name"] == "stopped"


def speculative(method: str, tokens: int, model: Path | None = None) -> tuple[str, str]:
    config = {"method": method, "num_speculative_tokens": tokens}
    return "--speculative-config", json.dumps(config | ({"model": str(model)} if model else {}))


def real(folder: Path) -> tuple[Path, str, str]:
    """A folder with weights of its own, and the option that has them read."""
    return add_weights(folder), "--load-format", "safetensors"


@pytest.mark.parametrize("model", ["gemma3", "mixtral", "deepseek"])
def test_sliding_windows_experts_and_latent_attention(
    model: str, tmp_path: Path, validate: Validate
) -> None:
    status, report, said = validate(*real(make_folder(tmp_path, model)), *CACHE)
    assert status == 0, said
    assert_exact(report)
    assert report["facts"]["seconds"]["loading"] > 0


@pytest.mark.parametrize("method", ["ngram", "draft_model"])
def test_speculation(method: str, tmp_path: Path, validate: Validate) -> None:
    """What a draft adds to the cache, and its counters."""
    draft = None
    if method == "draft_model":
        draft = make_folder(tmp_path, "llama", "draft", num_hidden_layers=1)
    folder = make_folder(tmp_path, "llama", num_hidden_layers=3)
    status, report, said = validate(folder, *CACHE, *speculative(method, 3, draft))
    assert status == 0, said
    assert_exact(report)
    counted = report["speculation"]
    assert counted["drafts"] > 0
    assert counted["draft_tokens"] <= counted["drafts"] * 3
    assert len(counted["acceptance_rates"]) == 3


@pytest.mark.parametrize("method", ["eagle3", "mtp"])
def test_heads_with_weights(method: str, tmp_path: Path, validate: Validate) -> None:
    """Drawn at random they guess next to nothing, at any position."""
    if method == "mtp":
        model, words = make_folder(tmp_path, "deepseek_mtp"), speculative("mtp", 1)
    else:
        model = make_folder(tmp_path, "llama", num_hidden_layers=8)
        words = speculative("eagle3", 3, add_weights(make_folder(tmp_path, "eagle3")))
    status, report, said = validate(*real(model), *CACHE, *words)
    assert status == 0, said
    assert_exact(report)
    assert report["speculation"]["drafts"] > 100
    assert len(report["speculation"]["acceptance_rates"]) == (1 if method == "mtp" else 3)
    assert max(report["speculation"]["acceptance_rates"]) < 0.05


def test_a_model_that_drafts_for_itself(tmp_path: Path, validate: Validate) -> None:
    """All that it guesses is accepted: 32 tokens of each of four requests, four a step."""
    folder = make_folder(tmp_path, "llama")
    words = speculative("draft_model", 3, folder)
    status, report, said = validate(*real(folder), *CACHE, *words)
    assert status == 0, said
    assert_exact(report)
    counted = report["speculation"]
    assert counted["acceptance_rates"] == [1.0, 1.0, 1.0]
    assert counted["drafts"] == 4 * 32 / 4


def test_half_a_billion_parameters_under_load(tmp_path: Path, validate: Validate) -> None:
    """Read from its checkpoint; the load goes through vLLM's own benchmark, and is not long."""
    folder, *words = real(make_folder(tmp_path, "qwen2_half_billion"))
    began = time.monotonic()
    status, report, said = validate(
        folder, *words, "--kv-cache-memory-bytes", str(2**30),
        before=("--prompt-tokens", "128", "--output-tokens", "32", "--concurrency", "4"),
    )  # fmt: skip
    beside = time.monotonic() - began - report["ready_seconds"]
    assert status == 0, said
    assert_exact(report)
    assert [level["concurrency"] for level in report["levels"]] == [1, 4]
    for level in report["levels"]:
        assert level["by"] == "vllm bench serve"
        assert level["failed"] == 0
    assert beside < 120 * _slowness(report)


def _slowness(report: dict[str, Any]) -> float:
    """How much longer everything takes than on idle cores, by the start: 45 s there."""
    return float(max(1.0, report["ready_seconds"] / 45))


def test_a_kept_server_and_one_that_is_attached_to(
    tmp_path: Path, environ: dict[str, str], validate: Validate
) -> None:
    folder = make_folder(tmp_path, "llama")
    status, report, said = validate(folder, *CACHE, before=("--keep", "--requests", "0"))
    assert status == 0, said
    kept = report["kept"]
    try:
        key = Path(kept["key_file"]).read_text()
        run = subprocess.run(
            [VPLAN, "validate", "--attach", kept["url"], "--requests", "4", "--json"],
            capture_output=True,
            text=True,
            env={**environ, "VLLM_API_KEY": key},
        )
        assert run.returncode == 0, run.stderr
        attached = json.loads(run.stdout)
        measured = {term["name"]: term["measured"] for term in attached["terms"]}
        assert measured["KV blocks"] == next(
            term["plan"]["value"] for term in report["terms"] if term["name"] == "KV blocks"
        )
        assert all(term["inside"] for term in attached["terms"])
        assert attached["levels"][0]["completed"] == 4
        assert runs(kept["pid"])
    finally:
        os.kill(kept["pid"], signal.SIGTERM)
    assert all_end([kept["pid"]], 15)
    until = time.monotonic() + 15  # for the watchdog to see to the rest
    while vllm_processes(tmp_path.parent) and time.monotonic() < until:
        time.sleep(0.1)


def test_a_server_that_somebody_else_started_with_its_log(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Nothing of it changes; it is asked what is said, and its log tells the rest."""
    folder = make_folder(tmp_path, "llama")
    options = ["--max-model-len", "4096", "--gpu-memory-utilization", "0.15"]
    with serving(folder, options, {}, tmp_path / "cache") as server:
        assert server.up, server.log.read_text()[-2000:]
        url = f"http://127.0.0.1:{server.port}"
        before = server.metrics()

        def attached(*words: str) -> tuple[int, dict[str, Any], str]:
            command = [VPLAN, "validate", "--attach", url, "--json", *words]
            run = subprocess.run(command, capture_output=True, text=True, env=environ)
            assert run.stdout, run.stderr
            return run.returncode, json.loads(run.stdout), run.stderr

        ask = ("--requests", "3", "--concurrency", "2", "--prompt-tokens", "20",
               "--output-tokens", "10")  # fmt: skip
        status, report, said = attached(*ask, "--log", str(server.log))
        after = server.metrics()
        assert status == 0, (said, report["terms"])
        _, bare, _ = attached("--requests", "0")
        assert runs(server.process.pid)
    terms = {term["name"]: term for term in report["terms"]}
    assert terms["KV tokens"]["measured"] == report["facts"]["kv_tokens"]
    assert terms["weights and the process"]["measured"] == report["facts"]["ranks"][0]["consumed"]
    assert report["unseen"] == []
    assert "--gpu-memory-utilization 0.15" in report["command"]
    assert report["facts"]["ready"]
    assert report["spent"]["start"] is report["spent"]["stop"] is None
    assert "weights and the process" in bare["unseen"]
    # Of requests of two levels, 3 each, and of the first ones: 2 at least, no more than 4.
    asked = finished(after) - finished(before)
    assert asked == len(report["completions"]) + 2 * 3
    assert [level["completed"] for level in report["levels"]] == [3, 3]
    assert settings(before) == settings(after)
    lines = [line for line in server.log.read_text().splitlines() if '"POST ' in line]
    asked_for = {line.split('"')[1].split()[1] for line in lines}
    assert asked_for == {"/v1/completions", "/tokenize"}  # the latter by vLLM's own benchmark


def finished(metrics: str) -> float:
    """Requests that a server has answered."""
    lines = [line for line in metrics.splitlines() if line.startswith("vllm:request_success_total")]
    assert lines
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def settings(metrics: str) -> list[str]:
    """What it was configured to."""
    return [line for line in metrics.splitlines() if "config_info" in line]


def test_the_next_plan_is_closer(
    tmp_path: Path, environ: dict[str, str], validate: Validate
) -> None:
    """After a run that taught what a worker takes here; for another model than that of the run."""
    automatic = ("--gpu-memory-utilization", "0.15")
    words = {"env": environ, "capture_output": True, "text": True}
    first = make_folder(tmp_path, "llama")
    second = make_folder(tmp_path, "gemma3")
    check = [VPLAN, "check", "--json", "--gpu", "cpu", "--vllm-version", "0.32.0", "--", VLLM,
             "serve", str(second), *SETTINGS, *automatic]  # fmt: skip
    before = json.loads(subprocess.run(check, **words).stdout)  # type: ignore[call-overload]
    validate(first, *automatic)
    after = json.loads(subprocess.run(check, **words).stdout)  # type: ignore[call-overload]
    _, report, _ = validate(second, *automatic)
    measured = next(t for t in report["terms"] if t["name"] == "weights and the process")

    def error(planned: dict[str, Any]) -> float:
        rank = planned["memory"]["ranks"][0]
        parts = [rank["weights"]["total"]["value"], rank["non_torch"]["value"]]
        return float(abs(sum(parts) + rank["persistent_buffers"] - measured["measured"]))

    assert error(after) < error(before) / 2
    assert after["memory"]["ranks"][0]["non_torch"]["basis"] == "measured"
    assert measured["inside"]


def test_retries_end_with_a_command_that_runs(tmp_path: Path, validate: Validate) -> None:
    """The plan sees that one request does not fit, and which length does."""
    folder = make_folder(tmp_path, "llama")
    words = ("--kv-cache-memory-bytes", str(4 * 2**20), "--no-such-flag", "3")
    status, report, said = validate(folder, *words, before=("--retry", "3", "--requests", "0"))
    assert status == 0, said
    verdicts = [each["verdict"] for each in report["tries"]]
    assert verdicts == ["refused", "refused", "inside"]
    assert report["tries"][1]["change"] == "without --no-such-flag"
    assert report["tries"][2]["change"].startswith("--max-model-len ")


def test_a_launch_that_vllm_refuses(tmp_path: Path, validate: Validate) -> None:
    """For a reason that no plan can see: a model without a tokenizer."""
    folder = make_folder(tmp_path, "llama")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    status, report, said = validate(folder, *CACHE)
    assert status == 4, said
    assert report["failure"]["kind"] == FailureKind.TOKENIZER.value, report["failure"]


def test_a_server_that_is_not_ready_in_time(tmp_path: Path, validate: Validate) -> None:
    folder = make_folder(tmp_path, "llama")
    status, report, said = validate(folder, *CACHE, before=("--timeout", "5"))
    assert status == 4, said
    assert report["failure"]["kind"] == FailureKind.TIMEOUT.value


def test_a_server_that_hangs(tmp_path: Path, environ: dict[str, str]) -> None:
    """Its engine stands still while it starts: it neither ends nor gets ready."""
    folder = make_folder(tmp_path, "llama")
    command = (VLLM, "serve", str(folder), *SETTINGS, *CACHE)
    vplan = subprocess.Popen(
        [VPLAN, "validate", "--json", "--timeout", "90", "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
    )
    try:
        stopped = _signal_engines(vplan, signal.SIGSTOP)
        out, _ = vplan.communicate(timeout=SECONDS)
    finally:
        vplan.kill()
        vplan.wait()
    assert vplan.returncode == 4
    report = json.loads(out)
    assert report["failure"]["kind"] == FailureKind.TIMEOUT.value
    assert report["failure"]["said"].startswith("not ready after 90 s; the last it reached: ")
    assert report["ready_seconds"] is None
    assert all_end(stopped, 10)


def _signal_engines(vplan: subprocess.Popen[str], number: signal.Signals) -> list[int]:
    """Once there are any."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert vplan.poll() is None
        pids = [process.pid for process in descendants(vplan.pid)]
        engines = [pid for pid in pids if _is_engine(pid)]
        for pid in engines:
            os.kill(pid, number)
        if engines:
            return engines
        time.sleep(0.2)
    raise AssertionError("no engine was started")


def _is_engine(pid: int) -> bool:
    try:
        return b"EngineCore" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_server_that_crashes_on_the_first_request(tmp_path: Path, validate: Validate) -> None:
    """EAGLE-3 takes the states of three layers, which a target of four has twice over."""
    folder = make_folder(tmp_path, "llama")
    draft = make_folder(tmp_path, "eagle3")
    status, report, said = validate(folder, *CACHE, *speculative("eagle3", 3, draft))
    assert status == 4, said
    assert report["failure"]["when_serving"]
    assert report["failure"]["kind"] == FailureKind.CRASH.value


def test_a_server_that_dies_under_load(tmp_path: Path, environ: dict[str, str]) -> None:
    """Its engine is killed, as the system does for want of memory."""
    folder = make_folder(tmp_path, "llama")
    command = (VLLM, "serve", str(folder), *SETTINGS, *CACHE)
    vplan = subprocess.Popen(
        [VPLAN, "validate", "--json", "--requests", "2000", "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
    )
    try:
        until = time.monotonic() + SECONDS
        while not list(tmp_path.glob("data/vplan/launches/*/bench.log")):
            assert vplan.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        _signal_engines(vplan, signal.SIGKILL)
        out, _ = vplan.communicate(timeout=SECONDS)
    finally:
        vplan.kill()
        vplan.wait()
    assert vplan.returncode == 4
    failure = json.loads(out)["failure"]
    assert failure["when_serving"]
    assert failure["kind"] in (FailureKind.CRASH.value, FailureKind.KILLED.value)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--gpu-memory-utilization", "0.99"], FailureKind.FREE_MEMORY),
        (["--no-such-flag", "3"], FailureKind.OPTION),
        (["--port"], FailureKind.PORT),
    ],
)
def test_refusals_as_vllm_words_them(words: list[str], kind: FailureKind, tmp_path: Path) -> None:
    """What the plan would have stopped, started all the same: the log says it in our terms."""
    folder = make_folder(tmp_path, "llama")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        if kind is FailureKind.PORT:
            words = [*words, str(taken.getsockname()[1])]
        seen = launch(folder, words, {}, tmp_path / "cache")
    assert not seen.cache_config
    failure = read_log(seen.log.splitlines())[-1].failure
    assert failure is not None, seen.log[-2000:]
    assert failure.kind is kind


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
