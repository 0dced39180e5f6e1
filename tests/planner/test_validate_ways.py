"""Ways to validate: recommended commands, corrected ones, other launchers, servers that run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from fake_installation import CACHE, FAKE, Fake
from program import Vplan

from planner.launch.client import Client
from planner.launch.ports import free_port
from planner.launch.probe import probe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fake's processes need /proc")


@pytest.fixture
def fake(tmp_path: Path, vplan_here: Vplan, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, vplan_here, monkeypatch)


def test_a_load_of_our_own_where_there_is_no_bench(fake: Fake) -> None:
    run = fake(before=("--json", "--requests", "6", "--concurrency", "3", "--prompt-tokens", "50",
                       "--output-tokens", "20"))  # fmt: skip
    assert run.status == 0, run.err
    alone, together = json.loads(run.out)["levels"]
    assert (alone["concurrency"], together["concurrency"]) == (1, 3)
    for level in (alone, together):
        assert (level["completed"], level["failed"]) == (6, 0)
        assert (level["prompt_tokens"], level["output_tokens"]) == (50, 20)
        assert level["by"] == "requests of vplan's own"
        assert level["output_tokens_per_second"] > 0
        assert level["seconds"] > 0
    spent = json.loads(run.out)["spent"]
    assert spent["levels"] == pytest.approx(alone["seconds"] + together["seconds"])
    assert spent["start"] == json.loads(run.out)["ready_seconds"]
    assert spent["load"] >= spent["levels"]
    assert spent["requests"] > 0
    assert spent["stop"] > 0
    assert "| 3 | 6 | 50 + 20 |" in (fake.folder() / "report.md").read_text()


def test_counters_of_speculation(fake: Fake) -> None:
    fake.ill("speculates")
    report = json.loads(fake(before=("--json", "--requests", "2")).out)
    assert report["speculation"] == {
        "drafts": 20, "draft_tokens": 60, "accepted_tokens": 25, "acceptance_length": 2.25,
        "acceptance_rates": [0.75, 0.4, 0.1],
    }  # fmt: skip
    said = "Speculation: acceptance length 2.25 over 20 drafts; by position 75 %, 40 %, 10 %"
    assert said in (fake.folder() / "report.md").read_text()
    assert said in " ".join(fake(before=("--requests", "2")).out.split())
    fake.ill("")
    assert json.loads(fake(before=("--json", "--requests", "2")).out)["speculation"] is None


def test_settings_where_the_server_tells_them(fake: Fake) -> None:
    fake.monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    run = fake(before=("--requests", "1"))
    assert run.status == 0, run.err
    row = next(line for line in run.out.splitlines() if line.startswith("max_num_seqs"))
    assert row.split()[1:] == ["128", "exact", "128", "0", "yes"]


def test_a_server_that_dies_under_load(fake: Fake) -> None:
    fake.ill("dies-under-load")
    run = fake(before=("--json", "--requests", "4"))
    assert run.status == 4
    failure = json.loads(run.out)["failure"]
    assert (failure["kind"], failure["when_serving"]) == ("out_of_memory", True)
    assert not fake.alive()


def test_retries_end_with_a_command_that_runs(fake: Fake) -> None:
    fake.ill("kv-room-2048")
    run = fake(before=("--retry", "2", "--json", "--requests", "1"))
    assert run.status == 0, run.err
    report = json.loads(run.out)
    assert [(each["change"], each["verdict"]) for each in report["tries"]] == [
        (None, "failed"), ("--max-model-len 2048", "inside"),
    ]  # fmt: skip
    assert report["command"].count("--max-model-len") == 1
    assert "--max-model-len 2048" in report["command"]


def test_retries_say_which_command_runs(fake: Fake) -> None:
    fake.ill("free-memory")
    command = (
        "vllm",
        "serve",
        str(fake.model),
        "--max-model-len=4096",
        "--gpu-mem",
        "0.92",
        *CACHE,
    )
    run = fake(*command, before=("--retry", "1", "--requests", "1"))
    assert run.status == 0, run.err
    assert "Try 2: --gpu-memory-utilization 0.62" in run.out
    runs = run.out[run.out.index("This one runs:") :]
    assert "--gpu-mem 0.92" not in runs
    assert "--max-model-len=4096" in runs


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (("--swap-space", "4"), "without --swap-space"),
        (("--no-such-flag", "3"), "without --no-such-flag"),
    ],
)
def test_retries_leave_out_what_check_refuses(
    fake: Fake, words: tuple[str, ...], change: str
) -> None:
    command = ("vllm", "serve", str(fake.model), *words, "--max-model-len", "4096", *CACHE)
    run = fake(*command, before=("--retry", "1", "--requests", "1", "--json"))
    assert run.status == 0, run.err
    report = json.loads(run.out)
    assert [(each["change"], each["verdict"]) for each in report["tries"]] == [
        (None, "refused"), (change, "inside"),
    ]  # fmt: skip
    assert words[0] not in report["command"]


def test_retries_end_where_no_change_is_known(fake: Fake) -> None:
    fake.ill("crash-on-request")
    run = fake(before=("--retry", "3", "--json"))
    assert run.status == 4
    assert json.loads(run.out)["tries"] == []


def test_the_recommended_command(fake: Fake) -> None:
    run = fake.vplan("validate", "--model", str(fake.model), "--context", "4096", "--requests", "1",
                     "--", "--enforce-eager", "--kv-cache-memory-bytes", "268435456")  # fmt: skip
    assert run.status == 0, run.err
    assert f"{fake.root / 'bin' / 'vllm'} serve {fake.model} --max-model-len 4096" in run.out
    fake.monkeypatch.setenv("FAKE_TOKENS", "4096")
    again = fake.vplan("recommend", "--model", str(fake.model), "--gpu", "cpu", "--context", "4096",
                       "--validate")  # fmt: skip
    assert again.status == 1
    assert "outside the plan's band" in again.err
    refused = fake.vplan("recommend", "--model", str(fake.model), "--gpu", "4090", "--validate")
    assert refused.status == 2
    assert "this machine" in refused.err


def test_a_model_that_does_not_fit(fake: Fake) -> None:
    run = fake.vplan("validate", "--model", str(fake.model), "--context", "99999999")
    assert run.status in (1, 2)
    assert not fake.started


def test_an_environment_as_launcher(fake: Fake, tmp_path: Path) -> None:
    folder = tmp_path / "other" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    run = fake(before=("--launcher", str(folder.parent), "--requests", "1"))
    assert run.status == 0, run.err
    assert f"{folder / 'python'} -m vllm.entrypoints.openai.api_server --model" in run.out
    none = fake(before=("--launcher", str(tmp_path)))
    assert none.status == 2
    assert "it has no bin/python" in none.err


def test_a_program_as_launcher(fake: Fake, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    python = f'[ "$1" = python ] && shift && exec {sys.executable} "$@"'
    prefix.write_text(f'#!/bin/sh\nshift\n{python}\nexec "$@"\n')
    prefix.chmod(0o755)
    run = fake(before=("--launcher", f"{prefix} run", "--requests", "1"))
    assert run.status == 0, run.err
    assert f"{prefix} run vllm serve {fake.model}" in run.out
    assert "no such program" in fake(before=("--launcher", "no-such-launcher run")).err


def test_a_program_that_only_starts_others(fake: Fake, tmp_path: Path) -> None:
    """The Python that it would start has no vLLM; the script that is on the path has one."""
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    run = fake(before=("--launcher", "nice -n 1", "--requests", "0"))
    assert run.status == 0, run.err
    assert f"nice -n 1 {tmp_path / 'bin' / 'vllm'} serve {fake.model}" in run.out
    fake.uninstall()
    assert "no vLLM" in fake(before=("--launcher", "nice -n 1")).err


DOCKER = """\
#!/bin/sh
echo "$@" >> {calls}
[ "$1" = run ] || exit 0
while [ "$1" != serve ]; do shift; done
exec {vllm} "$@"
"""


def test_a_container(fake: Fake, tmp_path: Path) -> None:
    """It is removed by its name, and gets the key without its value on the command line."""
    docker, calls = tmp_path / "bin" / "docker", tmp_path / "calls"
    docker.write_text(DOCKER.format(calls=calls, vllm=tmp_path / "bin" / "vllm"))
    docker.chmod(0o755)
    command = ("docker", "run", "--gpus", "all", "-d", "-p", "8000:8000", "--ipc=host",
               "vllm/vllm-openai:v0.32.0", "--model", str(fake.model), "--max-model-len", "4096",
               *CACHE)  # fmt: skip
    fake.monkeypatch.setenv("FAKE_TOKENS", "131072")
    run = fake(*command, before=("--gpu", "cpu", "--requests", "1"))
    assert run.status == 0, run.err
    started, removed = calls.read_text().splitlines()
    name = started.split()[started.split().index("--name") + 1]
    assert removed == f"rm -f {name}"
    assert "--gpus all --ipc=host --entrypoint vllm vllm/vllm-openai:v0.32.0 serve" in started
    assert "-e VLLM_API_KEY " in started
    assert "-p 127.0.0.1:" in started
    assert " -d " not in started
    assert "8000:8000" not in started
    untagged = fake("docker", "run", "vllm/vllm-openai", "--model", str(fake.model))
    assert untagged.status == 2
    assert "does not tell the release" in untagged.err


@pytest.fixture
def running(fake: Fake) -> Iterator[str]:
    """A server that somebody else started."""
    port = str(free_port())
    words = [sys.executable, str(FAKE), "serve", str(fake.model), "--port", port]
    server = subprocess.Popen(
        words, env={**os.environ, "VLLM_API_KEY": "their-key"}, stdout=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            urlopen(f"{url}/health", timeout=1).close()
            break
        except (URLError, OSError):
            time.sleep(0.05)
    yield url
    assert server.poll() is None
    assert len(fake.alive()) == 4  # with the test itself: nothing of it was ended
    server.terminate()
    server.wait()
    os.kill(json.loads((fake.root / "pids").read_text())[3], 9)


def test_a_server_that_runs_already(fake: Fake, running: str) -> None:
    fake.monkeypatch.setenv("VLLM_API_KEY", "their-key")
    run = fake.vplan("validate", "--attach", f"{running}/v1", "--requests", "1")
    assert run.status == 0, run.err
    assert f"vllm serve {fake.model} --max-model-len 4096" in run.out
    assert "--kv-cache-memory-bytes 268435456" in run.out
    row = next(line for line in run.out.splitlines() if line.startswith("KV tokens"))
    assert row.split()[2:] == ["131,072", "exact", "131,072", "0", "yes"]
    assert "their-key" not in run.out
    given = ("vllm", "serve", str(fake.model), "--max-model-len", "4096",
             "--kv-cache-memory-bytes", "134217728")  # fmt: skip
    other = fake.vplan("validate", "--attach", running, "--requests", "1", "--json", "--", *given)
    assert other.status == 1
    assert json.loads(other.out)["verdict"] == "outside"


@pytest.mark.parametrize(("patience", "asked"), [(0.0, 2), (60.0, 4)])
def test_a_slow_server_is_asked_less(patience: float, asked: int, running: str) -> None:
    """Two answers at least: the first warms it up."""
    client = Client(running, "their-key")
    answers = probe(client, patience=patience)
    assert len(answers.completions) == asked
    assert answers.ttft is not None


def log_of_it(fake: Fake, tokens: str = "131,072", release: str = "0.32.0") -> str:
    path = fake.root / "their.log"
    path.write_text(
        f"(APIServer pid=1) INFO 11-30 12:00:00 [utils.py:1] vLLM API server version {release}\n"
        "(APIServer pid=1) INFO 11-30 12:00:00 [utils.py:2] non-default args: "
        f"{{'model': '{fake.model}', 'max_model_len': 4096, 'max_num_seqs': 7}}\n"
        "(EngineCore pid=2) INFO 11-30 12:00:20 [cpu_worker.py:1] Auto set (0.25/23.54) GiB for KV "
        "cache on node 0, with 0.85 GiB requested memory for the worker. 0.60 GiB memory was "
        "consumed by non-kv usages.\n"
        f"(EngineCore pid=2) INFO 11-30 12:00:20 [kv.py:1] CPU KV cache size: {tokens} tokens, "
        "Maximum concurrency for 4,096 tokens per request: 32.00x\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
    )
    return str(path)


def test_what_only_the_log_of_a_server_tells(fake: Fake, running: str) -> None:
    """Without it that is said; with it, it is compared, and its command is planned."""
    fake.monkeypatch.setenv("VLLM_API_KEY", "their-key")
    ask = ("validate", "--attach", running, "--requests", "0")
    bare = fake.vplan(*ask)
    said = "Not measured (only the server's log tells, --log FILE): weights and the process, KV"
    assert said in " ".join(bare.out.split())
    assert said in (fake.folder() / "report.md").read_text()
    told = fake.vplan(*ask, "--log", log_of_it(fake), "--json")
    report = json.loads(told.out)
    measured = {term["name"]: term["measured"] for term in report["terms"]}
    assert measured["weights and the process"] == round(0.60 * 2**30)
    assert measured["KV cache"] == round(0.25 * 2**30)
    assert report["unseen"] == []
    assert "--max-num-seqs 7" in report["command"]


def test_a_log_of_another_server(fake: Fake, running: str) -> None:
    fake.monkeypatch.setenv("VLLM_API_KEY", "their-key")
    ask = ("validate", "--attach", running, "--requests", "0", "--log")
    other = fake.vplan(*ask, log_of_it(fake, tokens="65,536"))
    assert other.status == 2
    assert "its KV cache has 65,536 tokens, the server's 131,072" in other.err
    older = fake.vplan(*ask, log_of_it(fake, release="0.19.1"))
    assert older.status == 2
    assert "of vLLM 0.19.1, not 0.32.0" in older.err
    assert "--log goes with --attach" in fake.vplan("validate", "--log", "x", "--", "vllm").err


def test_a_server_that_is_not_to_be_asked(fake: Fake, running: str) -> None:
    refused = fake.vplan("validate", "--attach", running)
    assert refused.status == 2
    assert "its key is read from VLLM_API_KEY" in refused.err
    silent = fake.vplan("validate", "--attach", f"http://127.0.0.1:{free_port()}")
    assert silent.status == 2
    assert "no vLLM answers" in silent.err
    assert "looks like" in fake.vplan("validate", "--attach", "localhost").err
    assert "nothing of it is chosen" in fake.vplan("validate", "--attach", running, "--keep").err


def test_retries_that_find_nothing(fake: Fake) -> None:
    """The last thing that was examined is what is printed."""
    command = ("vllm", "serve", str(fake.model), "--max-model-len", "999999", *CACHE)
    run = fake(*command, before=("--retry", "2", "--json"))
    assert run.status == 1
    assert json.loads(run.out)["answer"] == "no"
    assert "no command was found that runs" in run.err
    assert not fake.started
