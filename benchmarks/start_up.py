"""What each command costs before it answers: time beyond the interpreter's, and what is imported.

    python benchmarks/start_up.py [--runs 7] [COMMAND ...]

Prints a line for each command with its budget, then the ten heaviest imports of the slowest one
(or of the commands named). Times are the processor's, of the quickest of several runs; `x` are
multiples of `python -c "import numpy, pydantic"`. Exit status 1: a budget or a ban was broken.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

RUN = "import sys; from planner.cli import main; sys.argv[0] = 'vplan'; main()"
YARDSTICK = "import numpy, pydantic"
# What only a command that draws screens, asks the Hub or plots may import.
SCREENS, HUB = {"textual"}, {"huggingface_hub.hf_api", "huggingface_hub.file_download", "httpx2"}
PLOTS = {"matplotlib", "plotly", "plotext", "seaborn"}
REPORTS = {"pydantic"}
NOTHING = SCREENS | HUB | PLOTS | REPORTS | {"numpy", "yaml", "rich", "typer"}

MODEL = "Qwen/Qwen3-8B"
SERVE = ("--", "vllm", "serve", MODEL, "--max-model-len", "8192")


class Budget(Struct, frozen=True):
    """A command, what it may cost, and what it must not import."""

    arguments: tuple[str, ...]
    banned: frozenset[str]
    milliseconds: float | None = None
    times_yardstick: float | None = None

    @property
    def name(self) -> str:
        return " ".join(("vplan", *self.arguments))

    def limit(self, yardstick: float) -> float:
        if self.milliseconds is not None:
            return self.milliseconds / 1000
        assert self.times_yardstick is not None
        return self.times_yardstick * yardstick


LIGHT = frozenset(SCREENS | HUB | PLOTS)
BUDGETS = (
    Budget(("--version",), frozenset(NOTHING), milliseconds=60),
    Budget(("__complete", "recommend", "--gpu", "2x40"), frozenset(NOTHING), milliseconds=150),
    Budget(("__complete", "models", "qwen/"), frozenset(NOTHING), milliseconds=150),
    Budget(("--help",), LIGHT, times_yardstick=3),
    Budget(("gpus", "4090"), LIGHT | REPORTS, times_yardstick=1.5),
    Budget(("models", MODEL, "--offline"), LIGHT | REPORTS, times_yardstick=2),
    Budget(("models", "search", "qwen3", "--offline"), LIGHT | REPORTS, times_yardstick=1.5),
    Budget(("check", "--gpu", "4090", "--offline", *SERVE), LIGHT, times_yardstick=1.5),
    Budget(("recommend", "--gpu", "4090"), LIGHT, times_yardstick=2),
    Budget(("recommend", "--gpu", "4090", "--offline", "--model", MODEL), LIGHT, times_yardstick=2),
    Budget(("diagnose", os.devnull), LIGHT, times_yardstick=2),
    Budget(("schema", "gpus"), LIGHT, times_yardstick=4),
)


def environment() -> dict[str, str]:
    """Compiled files are kept, and BLAS starts no threads: their spinning is no work of numpy's."""
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1"}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables | {"PYTHONPATH": os.pathsep.join(sys.path[1:])}


def seconds(arguments: list[str], runs: int) -> float:
    """Processor time of the quickest of several runs."""
    spent = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            env=environment(),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def imports(arguments: tuple[str, ...]) -> list[tuple[float, str]]:
    """Every import of a command, with the milliseconds it took itself."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", RUN, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    lines = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", run.stderr, re.MULTILINE)
    return [(int(own) / 1000, name) for own, name in lines]


def packages(found: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The same by top-level package, the heaviest first."""
    total: dict[str, float] = {}
    for own, name in found:
        top = name.partition(".")[0]
        total[top] = total.get(top, 0.0) + own
    return sorted(((own, name) for name, own in total.items()), reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", help='Part of a command: "recommend".')
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    chosen = [b for b in BUDGETS if all(word in b.name for word in options.commands)]
    bare = seconds(["-c", "pass"], options.runs)
    yardstick = seconds(["-c", YARDSTICK], options.runs)
    print(f"python -c pass {1000 * bare:.0f} ms; with {YARDSTICK[7:]} {1000 * yardstick:.0f} ms")
    broken = 0
    slowest, most = None, 0.0
    for budget in chosen:
        spent = seconds(["-c", RUN, *budget.arguments], options.runs)
        absolute = budget.milliseconds is not None
        cost = spent - bare if absolute else spent
        limit = budget.limit(yardstick)
        found = {name for _, name in imports(budget.arguments)}
        unwanted = sorted(budget.banned & found)
        failed = cost > limit or unwanted
        broken += bool(failed)
        shown = (
            f"{1000 * cost:4.0f} of {1000 * limit:4.0f} ms beyond the interpreter"
            if absolute
            else f"{1000 * cost:4.0f} ms, {cost / yardstick:.2f} of {budget.times_yardstick:g} x"
        )
        mark = "MISSED" if failed else "holds"
        print(f"{mark:6} {shown:42} {budget.name}" + (f"  imports {unwanted}" * bool(unwanted)))
        if cost > most:
            slowest, most = budget, cost
    for budget in chosen if options.commands else filter(None, [slowest]):
        found_imports = imports(budget.arguments)
        print(f"\n{budget.name}: the ten heaviest imports (ms in the module itself)")
        for own, name in sorted(found_imports, reverse=True)[:10]:
            print(f"{own:8.1f} {name}")
        whole = ", ".join(f"{name} {own:.0f}" for own, name in packages(found_imports)[:8])
        print(f"by package: {whole}")
    print(f"\n{len(chosen) - broken} of {len(chosen)} budgets hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
