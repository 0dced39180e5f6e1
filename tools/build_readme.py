"""Write the exactness of today's code into README.md: the score, and the table of what is covered.

    python tools/build_readme.py

Both stand between comments that name them (`<!-- score -->` ... `<!-- /score -->`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def answer(*options: str) -> str:
    """What the benchmark prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / "exactness.py"), *options]
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
    text = between(text, "score", f"**{answer().splitlines()[-1]}**")
    text = between(text, "coverage", answer("--markdown"))
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
