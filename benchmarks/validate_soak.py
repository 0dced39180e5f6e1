"""Kills `vplan validate`, or what it started, at random times, again and again.

    python benchmarks/validate_soak.py [--runs 50] [--real 0] [--seed 0]

Of the runs, `--real` start the real vLLM of this environment (a tiny model on the CPU), the others
the program of the tests that looks like it. After each, no process of the run may be left 10 s
after vplan ended, and the calibration store must be whole, with every run that finished. Prints a
line for each run and a table; exit status 1 if anything was left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from msgspec import Struct

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "against_vllm")]

from planner.calibration_store import CalibrationStore  # noqa: E402
from planner.launch.watchdog import descendants  # noqa: E402

VPLAN = str(Path(sys.executable).with_name("vplan"))
FAKE = ROOT / "tests" / "planner" / "fake_vllm.py"
MARK = "VPLAN_SOAK"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
LEFT_SECONDS = 10.0  # that processes may take to end
END_SECONDS = 60.0  # and vplan itself
ILLS = ("", "", "", "hang", "deaf", "crash-on-request")
FAKE_SECONDS, REAL_SECONDS = 6.0, 60.0  # in which a signal falls
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 4, "num_hidden_layers": 4, "head_dim": 32, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip


class Outcome(Struct, frozen=True):
    """One run: what was hit with what, when, and what was wrong after it."""

    victim: str
    signal: str
    seconds: float
    status: int | None
    wrong: tuple[str, ...]


class Place:
    """Folders of the runs, with both kinds of vLLM."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.fake_model = folder / "tiny"
        self.fake_model.mkdir()
        (self.fake_model / "config.json").write_text(json.dumps(CONFIG))
        self.bin, self.site = folder / "bin", folder / "site"
        self.bin.mkdir()
        info = self.site / "vllm-0.32.0+cpu.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Name: vllm\nVersion: 0.32.0+cpu\n")
        script = self.bin / "vllm"
        run = f"import runpy\nrunpy.run_path({str(FAKE)!r}, run_name='__main__')\n"
        script.write_text(f"#!{sys.executable}\n{run}")
        script.chmod(0o755)
        self.folder = folder
        self._real_model: Path | None = None

    @property
    def store(self) -> CalibrationStore:
        return CalibrationStore(self.data / "vplan" / "calibration.sqlite3")

    def real_model(self) -> Path:
        if self._real_model is None:
            from vllm_folders import make_folder

            self._real_model = make_folder(self.folder, "llama")
        return self._real_model

    def command(self, real: bool) -> list[str]:
        program = str(Path(sys.executable).with_name("vllm") if real else self.bin / "vllm")
        model = self.real_model() if real else self.fake_model
        settings = ["--max-model-len", "4096", "--enforce-eager", "--load-format", "dummy"]
        memory = ["--gpu-memory-utilization", "0.1"]  # so that every run teaches something
        return [VPLAN, "validate", "--requests", "2", "--", program, "serve", str(model), *settings,
                *memory]  # fmt: skip

    def environ(self, real: bool, mark: str, ill: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
        changed = {
            MARK: mark, "XDG_DATA_HOME": str(self.data), "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": str(self.folder / "cache"),
        }  # fmt: skip
        if not real:
            changed |= {"PYTHONPATH": f"{self.site}:{ROOT}", "FAKE_ILL": ill}
        return {**kept, **changed}


def soak(place: Place, draw: random.Random, real: bool) -> Outcome:
    """One run with a signal, sometimes two."""
    mark = uuid4().hex
    environ = place.environ(real, mark, draw.choice(ILLS))
    before = {run.uid for run in place.store.runs()}
    vplan = subprocess.Popen(
        place.command(real), env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    wait = draw.uniform(0.2, REAL_SECONDS if real else FAKE_SECONDS)
    with suppress(subprocess.TimeoutExpired):
        vplan.wait(wait)
    victims = {"vplan": vplan.pid}
    for process in descendants(vplan.pid):
        victims[_name(process.pid)] = process.pid
    victim = draw.choice(["vplan", *sorted(victims)])
    number = draw.choice(SIGNALS)
    with suppress(ProcessLookupError):
        os.kill(victims[victim], number)
    if draw.random() < 0.3:  # a second Ctrl-C
        time.sleep(draw.uniform(0, 1))
        with suppress(ProcessLookupError):
            vplan.send_signal(signal.SIGINT)
    wrong = []
    try:
        out, _ = vplan.communicate(timeout=END_SECONDS + (REAL_SECONDS if real else 0))
        if b"Traceback" in out:
            wrong.append("a traceback")
    except subprocess.TimeoutExpired:
        if environ.get("FAKE_ILL") not in ("hang", "deaf"):
            wrong.append("vplan did not end")
        vplan.kill()  # of a server that hangs it rightly waits for half an hour
        vplan.communicate()
    left = _left(mark)
    wrong += [f"left: {_name(pid)} {pid}" for pid in left]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    wrong += _about_store(place, before)
    return Outcome(victim, number.name, wait, vplan.returncode, tuple(wrong))


def _left(mark: str) -> list[int]:
    """Processes of the run that are there when their time is over."""
    until = time.monotonic() + LEFT_SECONDS
    while (found := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
                found += [] if state == b"Z" else [int(folder.name)]
    return found


def _about_store(place: Place, before: set[str]) -> list[str]:
    """What is wrong with the store: damaged, or without a run that it had."""
    told: list[str] = []
    store = CalibrationStore(place.store.path, warn=told.append)
    after = {run.uid for run in store.runs()}
    return told + (["the store lost runs"] if not before <= after else [])


def _name(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        for word in words:
            if word.endswith(b"watchdog.py"):
                return "watchdog"
            if word.endswith(b"bench_runner.py"):
                return "bench"
            if word.startswith(b"VLLM::"):
                return word.decode().removeprefix("VLLM::").split()[0]
        if b"serve" in words or b"vllm.entrypoints.openai.api_server" in words:
            return "server"
    return "other"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--real", type=int, default=0, help="so many of them with the real vLLM")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    outcomes = []
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for number in range(options.runs):
            real = number < options.real
            outcome = soak(place, draw, real)
            outcomes.append(outcome)
            kind = "real" if real else "fake"
            verdict = "; ".join(outcome.wrong) or "clean"
            print(
                f"{number + 1:3} {kind} {outcome.signal:7} to {outcome.victim:12} after "
                f"{outcome.seconds:4.1f} s: status {outcome.status}, {verdict}",
                flush=True,
            )
        learned = len(place.store.runs())
    bad = [outcome for outcome in outcomes if outcome.wrong]
    hit = Counter(outcome.victim for outcome in outcomes)
    print(f"{len(outcomes)} runs, {len(bad)} with something left or broken; {learned} taught")
    print("hit: " + ", ".join(f"{name} {count}" for name, count in hit.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
