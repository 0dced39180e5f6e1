"""What is pasted or dropped: a command, a plan file, or a log of vLLM."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from msgspec import Struct
from msgspec.structs import replace

from planner.command.invocation import read_invocation, split_text
from planner.command.parse import read_command
from planner.diagnosis.check import check_command
from planner.engine.releases import find_release
from planner.engine_config import EngineConfig
from planner.errors import PlanError
from planner.findings import Finding, Severity
from planner.launch.facts import LaunchFacts
from planner.launch.log import LogReader, open_log, presentable
from planner.plan_file import read_plan
from planner.settings import PLANNED_VARIABLES, Settings
from planner.tui.library import Library

_PLAN_FILES: Final = (".yaml", ".yml")
_LONGEST_PATH: Final = 4096
_LAST_LINES: Final = 200


class Pasted(Struct, frozen=True):
    """What a command asks for, and what is wrong with how it is written."""

    settings: Settings
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """How many of its options vLLM would refuse."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


class OpenedPlan(Struct, frozen=True):
    """A plan file."""

    settings: Settings
    path: Path


class OpenedLog(Struct, frozen=True):
    """The launches that a log tells of, at least one, the last of them the one to show.

    `ends` are the last lines of each, without secrets.
    """

    name: str
    launches: tuple[LaunchFacts, ...]
    ends: tuple[tuple[str, ...], ...]


Dropped = Pasted | OpenedPlan | OpenedLog


def read_dropped(text: str, settings: Settings, library: Library) -> Dropped:
    """A path that was dropped, a log that was pasted, or else a command.

    Raises `PlanError` or `CardError` for what is none of them. May ask the Hub.
    """
    path = _path(text)
    if path is not None:
        return read_path(path)
    log = _read_log("pasted text", text.splitlines())
    if log.launches[-1].tells_of_a_launch:
        return log
    return read_pasted(text, settings, library)


def read_path(path: Path) -> OpenedPlan | OpenedLog:
    """A plan file by its ending, else a log. Raises `PlanError`."""
    if path.suffix.lower() in _PLAN_FILES:
        return OpenedPlan(read_plan(path), path)
    with open_log(str(path)) as lines:
        log = _read_log(path.name, lines)
    if not log.launches[-1].tells_of_a_launch:
        raise PlanError(f"{path}: no line of a vLLM start is in it, and no plan file is named so")
    return log


def _read_log(name: str, lines: Iterable[str]) -> OpenedLog:
    """The launches of a log, each with its last lines."""
    reader = LogReader()
    ends: list[deque[str]] = []
    for line in lines:
        reader.feed(line)
        while len(ends) < reader.starts:
            ends.append(deque(maxlen=_LAST_LINES))
        ends[-1].append(presentable(line))
    return OpenedLog(name, reader.launches, tuple(map(tuple, ends or [deque()])))


def _path(text: str) -> Path | None:
    """The file that is named: as terminals write it when one is dropped on them."""
    text = text.strip()
    if not text or "\n" in text or len(text) > _LONGEST_PATH:
        return None
    return next((path for path in _readings(text) if _is_file(path)), None)


def _readings(text: str) -> Iterator[Path]:
    """As it stands, without quotes and escapes, and as a URI."""
    yield _expanded(text)
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if len(words) == 1:
        yield _expanded(words[0])
    if text.startswith("file://"):
        yield Path(unquote(urlparse(text).path))


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # the home of somebody unknown
        return Path(text)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_pasted(text: str, settings: Settings, library: Library) -> Pasted:
    """The command on the hardware of `settings`, for their release unless it names an image.

    Opens its model, which may ask the Hub. Raises `PlanError` or `CardError`.
    """
    image = read_invocation(split_text(text)).release
    command = read_command([text], image or settings.vllm)
    config = command.config
    if command.infers_method:
        rig = library.rig(settings.gpu)
        config = check_command(command, rig, offline=library.offline).config
    opened = replace(
        settings,
        model=command.model,
        vllm=command.release.name,
        config=config,
        environ=tuple(pair for pair in command.environ if pair[0] in PLANNED_VARIABLES),
    )
    return Pasted(opened, command.findings)


def settings_of(facts: LaunchFacts, settings: Settings) -> Settings:
    """The launch that a log tells of, as far as it does, on the hardware of `settings`."""
    release = settings.vllm
    if facts.release is not None:
        with suppress(PlanError):
            release = find_release(facts.release).name
    config = EngineConfig(
        tensor_parallel_size=facts.tensor_parallel_size or 1,
        max_model_len=facts.max_model_len,
        gpu_memory_utilization=next((rank.utilization for rank in facts.ranks), None),
    )
    return replace(
        settings, model=facts.model or settings.model, vllm=release, config=config, environ=()
    )
