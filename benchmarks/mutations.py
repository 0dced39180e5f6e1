"""Spoilt inputs through the whole command line: each must end in a plan or in one clear line.

    python benchmarks/mutations.py [--count 100000] [--seed 0] [--processes 2] [--only KIND]

A case is a fault if it ends in a traceback, in an error that is not one printable line, in output
that a terminal would act on, after more than a second of the processor's time, or with a process
that holds more than 500 MiB. Prints the counts and how to repeat each fault; exit status 1 if
there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import TextIO

ROOT = Path(__file__).parents[1]
for place in ("", "tests/model_cards", "tests/planner", "benchmarks"):
    if str(ROOT / place) not in sys.path:
        sys.path.insert(0, str(ROOT / place))

SECONDS = 1.0
BYTES = 500 << 20
CHUNK = 250
MOST_SHOWN = 40
# What is said of a file of the user's that cannot be read, before the answer.
_ASIDE = re.compile(
    r"; renamed \S+\.broken$|was damaged and is now .*-1; a new one holds 0 runs"
    r"|was written by a newer vplan; this one leaves it alone$"
)


class TooLong(BaseException):
    """A case used more than `SECONDS` of the processor."""


@dataclass
class Outcome:
    """What became of some cases."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    peak_bytes: int = 0

    def add(self, other: Outcome) -> None:
        self.counts += other.counts
        self.faults += other.faults
        self.slowest = max(self.slowest, other.slowest)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)


def run_chunk(seed: int, first: int, count: int, only: str | None) -> Outcome:
    """Run the cases `first` to `first + count`; each has a seed of its own."""
    from mutators import KINDS

    _stay_here()
    outcome = Outcome()
    names = [only] if only else list(KINDS)
    shares = [KINDS[name][1] for name in names]
    signal.signal(signal.SIGVTALRM, _stop)
    for number in range(first, first + count):
        rng = random.Random(f"{seed}:{number}")
        name = rng.choices(names, shares)[0]
        with tempfile.TemporaryDirectory(dir=_memory_folder()) as place, contextlib.chdir(place):
            os.environ |= {"XDG_DATA_HOME": f"{place}/data", "XDG_CACHE_HOME": f"{place}/cache"}
            case = KINDS[name][0](rng, Path(place))
            with _hub(case.online):
                verdict, fault, spent = run_case(case.arguments)
        outcome.counts[name, verdict] += 1
        _drop_lessons()
        label = f"case {number} of seed {seed} ({name}: {case.what:.200}) vplan {case.arguments}"
        outcome.slowest = max(outcome.slowest, (spent, label[:400]))
        if fault is not None:
            outcome.faults.append(f"{label[:700]}\n    {fault}")
        if number % 50 == 0:
            _forget()
    outcome.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return outcome


def run_case(arguments: list[str]) -> tuple[str, str | None, float]:
    """One command line: what it came to, what is wrong with that, the seconds it took."""
    from planner.cli.app import run

    began = time.process_time()
    with _captured() as (out, err):
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            status = run(arguments)
        except TooLong as error:
            return "fault", f"more than {SECONDS:g} s: {_place(error)}", SECONDS
        except BaseException as error:
            return "fault", f"{type(error).__name__}: {str(error)[:200]!r} {_place(error)}", 0.0
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    spent = time.process_time() - began
    return *_judge(status, _text(out), _text(err), "--json" in arguments), spent


def _judge(status: int, out: str, err: str, as_json: bool) -> tuple[str, str | None]:
    lines = err.splitlines()
    printed = (out + err).replace("\n", "")
    if not printed.isprintable():
        found = next(c for c in printed if not c.isprintable())
        return "fault", f"prints {found!r} raw"
    if status == 2:
        lines = [line for line in lines if not _ASIDE.search(line)] if len(lines) > 1 else lines
        err = err if not lines else lines[-1]
        if out or len(lines) != 1 or not err.startswith("vplan: ") or not err[8:].strip():
            return "fault", f"status 2, {len(out)} characters of output, stderr {err[:300]!r}"
        return "clear error", None
    if status not in (0, 1, 3, 4):
        return "fault", f"status {status}, stderr {err[:300]!r}"
    if as_json and out and "--" not in out[:2]:
        try:
            json.loads(out)
        except ValueError:
            return "fault", f"status {status}: what it prints is no JSON: {out[:100]!r}"
    if "Traceback" in err or not (out or err):
        return "fault", f"status {status}, stderr {err[:300]!r}"
    return "plan" if status != 1 else "no", None


@contextlib.contextmanager
def _captured() -> Iterator[tuple[TextIO, TextIO]]:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(3)]
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield streams[1], streams[2]
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept


def _text(stream: TextIO) -> str:
    assert isinstance(stream, io.TextIOWrapper)
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if str(ROOT) in f.filename and "benchmarks" not in f.filename]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(ours[-4:]))


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


@contextlib.contextmanager
def _hub(online: bool) -> Iterator[None]:
    """With a Hub, or as with HF_HUB_OFFLINE."""
    if not online:
        yield
        return
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = False
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = True


def _drop_lessons() -> None:
    """What a store of the case before taught."""
    from planner import calibration

    calibration.reload()


def _forget() -> None:
    """Caches that a process of one command would not fill."""
    from model_cards.sources import bundled

    bundled.open_bundled.cache_clear()
    gc.collect()


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _stay_here() -> None:
    """No Hub, no cache, nothing of the user's."""
    nowhere = str(ROOT / "no-such-folder")
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": nowhere, "COLUMNS": "80",
                   "NO_PROXY": "127.0.0.1"}  # fmt: skip
    os.environ.pop("HF_TOKEN", None)


def run_all(count: int, seed: int, processes: int, only: str | None = None) -> Outcome:
    """Run `count` cases."""
    total = Outcome()
    starts = range(0, count, CHUNK)
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        jobs = [
            pool.submit(run_chunk, seed, first, min(CHUNK, count - first), only) for first in starts
        ]
        for done, job in enumerate(jobs, 1):
            found = job.result()
            total.add(found)
            for fault in found.faults:  # at once: all of it takes its time
                print(f"FAULT {fault}", file=sys.stderr)
            if done % 40 == 0:
                print(f"{done * CHUNK} of {count}, {len(total.faults)} faults", file=sys.stderr)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, help="Run this one case here, with its traceback.")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="One kind of input.")
    options = parser.parse_args()
    if options.first is not None:
        outcome = run_chunk(options.seed, options.first, 1, options.only)
    else:
        outcome = run_all(options.count, options.seed, options.processes, options.only)
    kinds = sorted({kind for kind, _ in outcome.counts})
    for kind in kinds:
        found = {verdict: n for (k, verdict), n in outcome.counts.items() if k == kind}
        parts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(found.items()))
        print(f"{kind:12} {sum(found.values()):6}: {parts}")
    print(f"slowest: {outcome.slowest[0]:.2f} s, {outcome.slowest[1]}")
    print(f"most memory of a process: {outcome.peak_bytes >> 20} MiB")
    for fault in outcome.faults[:MOST_SHOWN]:
        print(f"FAULT {fault}")
    if outcome.peak_bytes > BYTES:
        outcome.faults.append("memory")
    print(f"{sum(outcome.counts.values())} spoilt inputs, {len(outcome.faults)} faults")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
