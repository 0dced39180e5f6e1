"""`vplan` as a user runs it: in a process of its own, without network and away from any cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from msgspec import Struct

# What would change what is printed or asked, wherever the tests run.
_UNWANTED = (
    "HF_TOKEN", "HF_ENDPOINT", "FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE",
    "TTY_INTERACTIVE", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LC_CTYPE",
)  # fmt: skip
_VERSION_FILE = Path(__file__).parents[2] / "planner" / "version.py"
VERSION = _VERSION_FILE.read_text("utf-8").split('"')[-2]  # as the build reads it
EXECUTABLE = str(Path(sys.executable).with_name("vplan"))


class Run(Struct, frozen=True):
    """What a run left behind."""

    status: int
    out: str
    err: str


class Vplan(Protocol):
    """Runs the command line in this process (the fixture `vplan_here`)."""

    def __call__(self, *arguments: str) -> Run: ...


def environment(**changes: str) -> dict[str, str]:
    """The caller's environment without what matters here, and with `changes`."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    here = {"COLUMNS": "80", "LANG": "C.UTF-8", "HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent",
            "XDG_DATA_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}  # fmt: skip
    return {**kept, **here, **changes}


def vplan(*arguments: str | bytes, **changes: str) -> Run:
    """Run the installed command to its end."""
    run = subprocess.run(
        [EXECUTABLE, *arguments], capture_output=True, env=environment(**changes), timeout=60
    )
    out, err = (stream.decode("utf-8", "surrogateescape") for stream in (run.stdout, run.stderr))
    return Run(run.returncode, out, err)
