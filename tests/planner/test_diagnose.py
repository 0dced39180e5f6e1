"""`vplan diagnose`: logs as files and pipes, whole and cut, into words, a bar and JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from launch_logs import CPU_LOG, FAILURES, RELEASES, STOP, V0_LOG, Said, cuda_log
from program import EXECUTABLE, Vplan, environment

from planner import PlanError
from planner.launch.explain import explain, said
from planner.launch.facts import Failure, FailureKind, LaunchFacts, Milestone
from planner.launch.log import open_log, read_log
from planner.launch.shares import shares

GIB = 2**30


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a log and gives its name."""

    def write(lines: list[str], encoding: str = "utf-8") -> str:
        path = tmp_path / "server.log"
        path.write_text("\n".join(lines), encoding=encoding)
        return str(path)

    return write


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_log(device: str) -> None:
    """One of them never ends, and has no lines to read."""
    with pytest.raises(PlanError, match="is a device, no log"), open_log(device):
        pass


def test_a_line_without_an_end_comes_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(bytes(3 << 20))
    with open_log(str(tmp_path / "server.log")) as lines:
        assert [len(line) for line in lines] == [1 << 20] * 3


def test_a_launch_that_served(vplan_here: Vplan, written: Any) -> None:
    run = vplan_here("diagnose", written(cuda_log("0.33.0", Said(), 2)))
    assert (run.status, run.err) == (0, "")
    for part in (
        "vLLM 0.33.0: org/model, tensor parallel 2",
        "ready at 26 s",
        "Memory of Worker_TP0: 79.11 GiB",
        "W  weights                       14.99 GiB",
        "K  KV cache                      54.12 GiB",
        "443,328 tokens, 13.53 requests of 32,768 tokens at once",
    ):
        assert part in run.out
    bar = next(line for line in run.out.splitlines() if line.startswith("WWW"))
    assert len(bar) == 72
    assert bar.count("K") == round(72 * 54.12 / 79.11)


def test_a_launch_that_failed(vplan_here: Vplan, written: Any) -> None:
    log = [*cuda_log("0.20.2", Said())[:10], FAILURES[0][0]]
    run = vplan_here("diagnose", written(log))
    assert run.status == 4
    (line,) = run.err.splitlines()
    assert line.startswith(
        "vplan: the launch failed: too little memory is left for the KV cache: one request of "
        "131,072 tokens needs 16.00 GiB, 4.25 GiB is there; vLLM says: To serve at least one"
    )
    assert line.endswith("…")
    assert "--max-model-len 34816, which vLLM says fits" in run.out
    assert "vLLM says: To serve at least one request" in run.out
    assert "estimated maximum model length is 34816." in " ".join(run.out.split())


def test_speed_and_preemptions(vplan_here: Vplan, written: Any) -> None:
    out = vplan_here("diagnose", written(CPU_LOG + STOP)).out
    assert "13.9 tok/s generated" in out
    assert "Preemptions: 3." in out
    assert "98.5 %" in out
    assert "4 requests running, 2 waiting" in " ".join(out.split())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_shells(vplan_here: Vplan, written: Any, encoding: str) -> None:
    run = vplan_here("diagnose", written(V0_LOG, encoding))
    assert run.status == 0
    assert "vLLM 0.8.5: org/old" in run.out
    assert "5,517 blocks" in run.out


def test_standard_input() -> None:
    run = subprocess.run(
        [EXECUTABLE, "diagnose", "-"],
        input="\r\n".join(CPU_LOG).encode() + b"\xff\xfe",
        capture_output=True,
        env=environment(),
        check=True,
    )
    assert b"230,528 tokens" in run.stdout


def test_a_part_of_a_log(vplan_here: Vplan, written: Any) -> None:
    log = cuda_log("0.33.0", Said())
    cache = next(at for at, line in enumerate(log) if "KV cache size" in line)
    head = vplan_here("diagnose", written(log[:cache]))
    assert head.status == 0
    assert "The log ends before the server is ready" in head.out
    tail = vplan_here("diagnose", written(log[cache:]))
    assert tail.status == 0
    assert "443,328 tokens" in tail.out


def test_what_is_no_log(vplan_here: Vplan, written: Any, tmp_path: Path) -> None:
    run = vplan_here("diagnose", written(["nothing", "of interest"]))
    assert run.status == 2
    assert "no line of a vLLM start" in run.err
    missing = vplan_here("diagnose", str(tmp_path / "none.log"))
    assert missing.status == 2
    assert "none.log" in missing.err


@pytest.mark.parametrize(
    "log",
    [V0_LOG, CPU_LOG + STOP, *(cuda_log(release, Said(), 2) for release in RELEASES),
     *([*CPU_LOG[:4], message] for message, _, _ in FAILURES)],
    ids=lambda log: log[-1][:30],
)  # fmt: skip
def test_json(vplan_here: Vplan, written: Any, log: list[str]) -> None:
    schema = json.loads(vplan_here("schema", "diagnosis").out)
    printed = json.loads(vplan_here("diagnose", "--json", written(log)).out)
    jsonschema.validate(printed, schema)
    assert (printed["schema_version"], printed["kind"]) == (1, "diagnosis")
    (facts,) = read_log(log)
    assert printed["launches"][0]["kv_tokens"] == facts.kv_tokens


@pytest.mark.parametrize("kind", FailureKind)
def test_every_failure_is_explained(kind: FailureKind) -> None:
    bare = explain(Failure(kind, "x"))
    assert bare.meaning
    served = explain(Failure(kind, "x", when_serving=True))
    assert served.meaning == f"after it was ready, {bare.meaning}"


@pytest.mark.parametrize(
    ("message", "short"),
    [
        ("RuntimeError: Worker failed with error 'shape '[-1, 768]' is invalid', please check the "
         "stack trace above for the root cause", "RuntimeError: shape '[-1, 768]' is invalid"),
        ("Value error, Model Runner V2 requires Triton. [type=value_error, input_value=X]",
         "Model Runner V2 requires Triton."),
        ("KeyError: 'layers'", "KeyError: 'layers'"),
        ("AssertionError: \x1b]0;title\x07 no\ttabs", "AssertionError: ]0;title no tabs"),
        ("RuntimeError: " + "very " * 100, None),
    ],
)  # fmt: skip
def test_what_vllm_says_in_short(message: str, short: str | None) -> None:
    line = said(Failure(FailureKind.CRASH, message))
    assert len(line) <= len("vLLM says: ") + 200
    assert line == f"vLLM says: {short}" if short is not None else line.endswith("…")
    assert said(Failure(FailureKind.CRASH, "no answer", seen=True)) == "no answer"


@pytest.mark.parametrize("message", [message for message, _, _ in FAILURES])
def test_no_advice_is_given_twice(message: str) -> None:
    failure = read_log([message])[0].failure
    assert failure is not None
    changes = explain(failure).changes
    assert len(changes) == len({*changes})


def test_the_device_is_known_before_its_cache() -> None:
    """A launch on a CPU that fails early is mended for a CPU."""
    for told, device in (("cpu", "CPU"), ("cuda", "GPU"), ("xpu", "XPU")):
        line = (
            "INFO 11-30 12:00:00 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: "
            f"model='m', tensor_parallel_size=1, device_config={told}, seed=0"
        )
        assert read_log([line])[0].device == device


def test_the_share_that_is_free() -> None:
    message = FAILURES[4][0]
    failure = read_log([message])[0].failure
    assert failure is not None
    assert "--gpu-memory-utilization 0.86" in explain(failure).changes  # 20.50 of 23.64
    nothing = Failure(FailureKind.FREE_MEMORY, "x", available=0, total=GIB)
    assert not any("utilization" in change for change in explain(nothing).changes)


def test_shares_add_up_to_the_gpu() -> None:
    for log in (V0_LOG, CPU_LOG, *(cuda_log(release, Said()) for release in RELEASES[1:])):
        found = shares(read_log(log)[0])
        assert found is not None
        assert found.total_known
        assert sum(part.size for part in found.parts) == pytest.approx(found.total, abs=2)
        for width in (1, 5, 72, 200):
            assert len(found.bar(width)) == width


def test_shares_without_the_size_of_the_gpu() -> None:
    found = shares(read_log(cuda_log("0.8.5", Said()))[0])
    assert found is not None
    assert not found.total_known
    assert [part.letter for part in found.parts] == ["W", "G"]
    assert shares(read_log(["INFO:     Application startup complete."])[0]) is None


ROOM = {"needed": 6 * GIB, "available": GIB}
BYTES, BLOCKS = ("--kv-cache-memory-bytes", "1000"), ("--num-gpu-blocks-override", "9")


@pytest.mark.parametrize(
    ("kind", "numbers", "options", "reached", "advised", "not_advised"),
    [
        # The share has no effect on a cache whose size is given (v1/worker/gpu_worker.py), nor
        # have the limits of a batch: nothing is profiled.
        ("kv_room", ROOM, (), None, "--gpu-memory-utilization", "--kv-cache-memory-bytes"),
        # 6 GiB, and 0.02 GiB = 20.48 MiB for what is rounded off: 6,165 MiB.
        ("kv_room", ROOM, BYTES, None, f"--kv-cache-memory-bytes {6165 << 20}", "utilization"),
        ("kv_room", ROOM, BYTES, None, "--max-model-len", "--max-num-batched-tokens"),
        ("kv_room", ROOM, BLOCKS, None, "--num-gpu-blocks-override", "utilization"),
        ("kv_room", ROOM, (), None, "--kv-cache-dtype fp8", None),
        ("kv_room", ROOM, ("--kv-cache-dtype", "fp8_e5m2"), None, "--max-model-len", "fp8"),
        # Nothing at all is left: a shorter context needs no less beside the cache.
        ("kv_room", {}, (), None, "--max-num-batched-tokens", "--max-model-len"),
        ("kv_room", {}, (), None, "--enforce-eager", "fp8"),
        ("kv_room", {}, ("--enforce-eager",), None, "--max-num-batched-tokens", "--enforce-eager"),
        # While weights load no cache is there yet; what is profiled is the batch.
        ("out_of_memory", {}, (), "LOADING", "--tensor-parallel-size", "utilization"),
        ("out_of_memory", {}, (), "LOADED", "--max-num-batched-tokens", "utilization"),
        ("out_of_memory", {}, (), "CACHE", "--gpu-memory-utilization", None),
        ("out_of_memory", {}, BYTES, "CACHE", "a smaller --kv-cache-memory-bytes", "utilization"),
        ("out_of_memory", {}, BLOCKS, "CACHE", "a smaller --num-gpu-blocks", "utilization"),
        # The cache fills its part whatever a token takes; eager mode is there or comes too late.
        ("out_of_memory", {}, (), "CACHE", "--enforce-eager", "fp8"),
        ("out_of_memory", {}, ("--enforce-eager",), "CACHE", "--max-num-seqs", "--enforce-eager"),
        ("out_of_memory", {"when_serving": True}, (), "READY", "utilization", "--enforce-eager"),
    ],
)  # fmt: skip
def test_advice_has_an_effect(
    kind: str,
    numbers: dict[str, Any],
    options: tuple[str, ...],
    reached: str | None,
    advised: str,
    not_advised: str | None,
) -> None:
    course = ((Milestone[reached], None),) if reached else ()
    failure = Failure(FailureKind(kind), "x", **numbers)
    facts = LaunchFacts(options=options, milestones=course, failure=failure)
    changes = explain(failure, facts).changes
    assert any(advised in change for change in changes), changes
    assert not_advised is None or not any(not_advised in change for change in changes), changes


def test_the_command_heeds_what_the_log_says_was_given(vplan_here: Vplan, written: Any) -> None:
    given = "non-default args: {'model': 'org/model', 'kv_cache_memory_bytes': 4563402752}"
    log = [f"(APIServer pid=1) INFO 01-01 00:00:01 [x.py:1] {given}", FAILURES[1][0]]
    out = " ".join(vplan_here("diagnose", written(log)).out.split())
    assert f"try: --kv-cache-memory-bytes {16405 << 20}" in out
    assert "utilization" not in out.partition("try:")[2]
    (facts,) = json.loads(vplan_here("diagnose", "--json", written(log)).out)["launches"]
    assert facts["failure"]["changes"][0].startswith(f"--kv-cache-memory-bytes {16405 << 20}")
