"""vLLM's log, from a stream or a file, into LaunchFacts.

Any part of a log will do: what is cut off is not said. What stands in front of a message (the
process, a container's name, colours) only tells ranks and times apart.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from stat import S_ISCHR
from typing import Any, BinaryIO, Final

from planner.command.secrets import redacted
from planner.errors import PlanError
from planner.launch.facts import (
    Failure,
    FailureKind,
    LaunchFacts,
    Milestone,
    RankFacts,
    Served,
    Times,
)
from planner.launch.log_table import Value, log_table

_LONGEST_LINE: Final = 8000
_MOST_AT_ONCE: Final = 2**20  # characters of a line that are held
_LONGEST_MESSAGE: Final = 400
# Colours, also those whose escape character got lost on the way.
_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[(?:\d{1,2}(?:;\d{1,2})*)m")
_SOURCE: Final = re.compile(r"\(([A-Za-z][\w.-]*(?: [\w=]+)?) pid=(\d+)[^)]*\)")
_RECORD: Final = re.compile(
    r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r" (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) (?:\[[^\]]*\]|\S+\]) ?",
    re.ASCII,
)
_EXCEPTION: Final = re.compile(r"\s*(?:\w+\.)*\w*(?:Error|Exception): \S")
_TOKEN: Final = re.compile(r"\bhf_\w{8,}|(?<=Bearer )\S+")
_API_KEY: Final = re.compile(r"(?<='api_key': )(\[[^\]]*\]|'[^']*')")
_CAUSES_NOTHING: Final = frozenset({"DEBUG", "INFO", "WARNING"})
# The draft's backend comes after the model's, and names repeat.
_FIRST: Final = frozenset({"release", "model", "options", "attention_backend"})
_RANK: Final = frozenset(RankFacts.__struct_fields__)
_TIMES: Final = frozenset(Times.__struct_fields__)
_SERVED: Final = frozenset(Served.__struct_fields__)


def presentable(line: str) -> str:
    """A line of a log without colours, and without tokens and keys that are in it."""
    text = _COLOUR.sub("", line[:_LONGEST_LINE])
    return redacted(_API_KEY.sub("'***'", _TOKEN.sub("***", text))).rstrip()


class LogReader:
    """Reads a log line by line; asked at any time for the launches it has seen."""

    def __init__(self) -> None:
        self._launches = [_Launch()]

    def feed(self, line: str) -> None:
        """The next line."""
        text = presentable(line)
        if text and self._launches[-1].starts_anew(text):
            self._launches.append(_Launch())
        if text:
            self._launches[-1].read(text)

    @property
    def starts(self) -> int:
        """How many starts of a server it has seen; one if there is none."""
        return len(self._launches)

    @property
    def launches(self) -> tuple[LaunchFacts, ...]:
        """Every start of a server, in order; one that says nothing if there is none."""
        return tuple(launch.facts() for launch in self._launches)

    @property
    def facts(self) -> LaunchFacts:
        """The last launch."""
        return self._launches[-1].facts()


LOG: Final = "server.log"  # in the folder of a validation


@contextmanager
def open_log(name: str) -> Iterator[Iterator[str]]:
    """The lines of a file, or of standard input for "-", in whatever encoding a shell wrote them.

    Of a folder that `vplan validate` left it is the log in it. Raises `PlanError` for what cannot
    be read.
    """
    if name == "-":
        yield _lines(sys.stdin.buffer)
        return
    inside = Path(name) / LOG
    try:
        file = open(inside if inside.is_file() else name, "rb")  # noqa: SIM115
    except OSError as error:
        raise PlanError(f"{name} cannot be read: {error.strerror}") from None
    with file:
        if S_ISCHR(os.fstat(file.fileno()).st_mode) and not file.isatty():
            raise PlanError(f"{name} is a device, no log")
        yield _lines(file)


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines of text; a longer one than any log has comes in pieces."""
    buffered = io.BufferedReader(stream)  # type: ignore[type-var]
    wide = buffered.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if wide else "utf-8-sig"
    text = io.TextIOWrapper(buffered, encoding=encoding, errors="replace")
    return iter(partial(text.readline, _MOST_AT_ONCE), "")


def read_log(lines: Iterable[str]) -> tuple[LaunchFacts, ...]:
    """The launches that a log tells of."""
    reader = LogReader()
    for line in lines:
        reader.feed(line)
    return reader.launches


class _Launch:
    """One start of a server, as far as it was read."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}
        self._times: dict[str, Any] = {}
        self._served: dict[str, Any] = {}
        self._ranks: dict[str, dict[str, Any]] = {}
        self._milestones: dict[Milestone, float | None] = {}
        self._began: datetime | None = None
        self._now: float | None = None
        self._cause: Failure | None = None  # of a known class
        self._exception: Failure | None = None  # any other
        self._passed_on: Failure | None = None  # by a process that only tells of another's
        self._died = False

    def starts_anew(self, text: str) -> bool:
        """Whether a line belongs to the next start, of a server that was restarted."""
        if max(self._milestones, default=Milestone.STARTED) is Milestone.STARTED:
            return False
        starts = [row for row in log_table().lines if row.milestone is Milestone.STARTED]
        return any(row.pattern.search(text) for row in starts)

    def read(self, text: str) -> None:
        """A line without colours."""
        record = _RECORD.search(text)
        sources = _SOURCE.findall(text[: record.start()] if record else text)
        source, pid = sources[-1] if sources else ("", "")
        self._now = self._time(record)
        table = log_table()
        for row in table.lines:
            found = row.read(text)
            if found is None:
                continue
            for name, value in found:
                self._keep(name, value, source, pid)
            if row.milestone is not None:
                self._reach(row.milestone)
            if any(name == "generation_rate" for name, _ in found):
                self._served["lines"] = self._served.get("lines", 0) + 1
        if record is None or record[1] not in _CAUSES_NOTHING:
            self._judge(text[record.end() :] if record else _SOURCE.sub("", text).lstrip())

    def facts(self) -> LaunchFacts:
        """What is known so far."""
        return LaunchFacts(
            **self._said,
            ranks=tuple(RankFacts(**rank) for rank in self._ranks.values()),
            times=Times(**self._times),
            milestones=tuple(sorted(self._milestones.items(), key=lambda entry: entry[0])),
            served=Served(**self._served),
            failure=self._failure(),
        )

    def _time(self, record: re.Match[str] | None) -> float | None:
        """Seconds from the first record to the last; records have no year."""
        if record is None:
            return self._now
        try:
            now = datetime(2000, *(int(part) for part in record.groups()[1:]))  # type: ignore[arg-type]
        except ValueError:
            return self._now
        if self._began is None:
            self._began = now
        elif now < self._began:
            now += timedelta(days=366)
        return (now - self._began).total_seconds()

    def _keep(self, name: str, value: Value, source: str, pid: str) -> None:
        if name in _TIMES:
            self._times[name] = max(value, self._times.get(name, value))
        elif name in _SERVED:
            self._served[name] = max(value, self._served.get(name, value))
        elif name in _RANK:
            rank = self._ranks.setdefault(pid, {"name": source})
            rank["name"] = source or rank["name"]
            rank[name] = value
        elif name not in _FIRST or name not in self._said:
            self._said[name] = value

    def _reach(self, milestone: Milestone) -> None:
        if milestone is Milestone.READY and milestone not in self._milestones:
            # Whatever went wrong before did not matter.
            self._cause = self._exception = self._passed_on = None
        self._milestones.setdefault(milestone, self._now)

    def _judge(self, message: str) -> None:
        """Whether a line says why the launch fails; nothing does once it is being stopped."""
        if Milestone.STOPPED in self._milestones:
            return
        table = log_table()
        if table.death.search(message):
            self._died = True
        if self._cause is None:
            for row in table.failures:
                found = row.read(message)
                if found is not None and row.failure is not None:
                    self._cause = self._describe(row.failure, message, found)
                    return
        if _EXCEPTION.match(message) is None:
            return
        if not table.wrapper.search(message):
            self._exception = self._exception or self._describe(FailureKind.CRASH, message, [])
        else:
            self._passed_on = self._passed_on or self._describe(FailureKind.CRASH, message, [])

    def _describe(self, kind: FailureKind, message: str, found: list[tuple[str, Value]]) -> Failure:
        said = message.strip()[:_LONGEST_MESSAGE]
        numbers: dict[str, Any] = dict(found)
        return Failure(kind, said, **numbers, when_serving=Milestone.READY in self._milestones)

    def _failure(self) -> Failure | None:
        if Milestone.READY in self._milestones and not self._died:
            return None
        found = self._cause or self._exception or self._passed_on
        if found is None and self._died:
            return Failure(
                FailureKind.CRASH,
                "the engine died; the log does not hold why",
                when_serving=Milestone.READY in self._milestones,
                seen=True,
            )
        return found
