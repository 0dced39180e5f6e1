"""Write the scores of today's code into README.md: exactness, what it covers, real launches.

    python tools/build_readme.py

They stand between comments that name them (`<!-- score -->` ... `<!-- /score -->`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def answer(benchmark: str, *options: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{benchmark}.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def between(text: str, name: str, content: str) -> str:
    """`text` with `content` between the comments of that name."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    found = pattern.subn(lambda _: f"{start}\n{content}\n{end}", text)
    if found[1] != 1:
        raise SystemExit(f"README.md has no single {start} ... {end}")
    return found[0]


def main() -> None:
    text = README.read_text("utf-8")
    text = between(text, "score", f"**{answer('exactness').splitlines()[-1]}**")
    text = between(text, "coverage", answer("exactness", "--markdown"))
    launches = str(ROOT / "tests" / "data" / "launches.jsonl")
    scored = answer("launch_accuracy", launches, "--leave-one-source-out", "--markdown")
    text = between(text, "launches", scored)
    speeds = ("speed_accuracy", str(ROOT / "tests" / "data" / "measurements.jsonl"), "--markdown")
    text = between(text, "speed", answer(*speeds))
    text = between(text, "speed-left-out", answer(*speeds, "--leave-one-source-out"))
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
