"""The table of vLLM's log lines, compiled: data/log_lines.toml."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from planner.launch.facts import FailureKind, Milestone
from planner.launch.log_arguments import option_words

_GIB: Final = 2**30
_UNITS: Final = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NUMBER: Final = r"-?\d{1,15}(?:\.\d{1,12})?"
_KINDS: Final = {
    "gib": _NUMBER,
    "mib": _NUMBER,
    "size": rf"{_NUMBER} (?:bytes|[KMGT]iB)",
    "platform": "cuda|cpu|xpu|tpu|hpu",
    "float": _NUMBER,
    "int": r"\d[\d,]{0,18}",
    "bytes": r"\d[\d,]{0,18}",
    "name": r"[A-Z][\w ]{1,40}?",
    "device": "GPU|CPU|XPU|TPU|HPU",
    "repo": r"[\w.-]{1,96}/[\w.-]{1,96}?",
    "release": r"\d[\w.+]{0,40}",
    "option": r"-[-\w/]{1,100}",
    "word": r"[^\s'\"]{1,200}",
    "text": ".{1,200}?",
    "settings": r"\{.{0,7000}\}",
}
_FACT: Final = re.compile(r"<(\w+):(\w+)>")

Value = int | float | str | tuple[str, ...]


class Line(Struct, frozen=True):
    """A line that states facts, or that a milestone is reached, or why a launch fails."""

    pattern: re.Pattern[str]
    kinds: tuple[tuple[str, str], ...]  # what each group of the pattern is
    milestone: Milestone | None = None
    failure: FailureKind | None = None

    def read(self, text: str) -> list[tuple[str, Value]] | None:
        """The facts in a line of the log; None if it is another line."""
        match = self.pattern.search(text)
        if match is None:
            return None
        found = zip(self.kinds, match.groups(), strict=True)
        return [(name, _value(kind, group)) for (name, kind), group in found if group is not None]


class Table(Struct, frozen=True):
    """Everything in a log that says something."""

    lines: tuple[Line, ...]
    failures: tuple[Line, ...]
    wrapper: re.Pattern[str]  # an error that only passes on another
    death: re.Pattern[str]  # the end of a server that was ready


@cache
def log_table() -> Table:
    """The table, read once."""
    path = Path(__file__).parent / "data" / "log_lines.toml"
    raw = tomllib.loads(path.read_text("utf-8"))
    return Table(
        tuple(_line(row) for row in raw["line"]),
        tuple(_line(row) for row in raw["failure"]),
        re.compile(raw["wrapper"]["text"]),
        re.compile(raw["death"]["text"]),
    )


def _line(row: dict[str, Any]) -> Line:
    text = row["text"]
    kinds = tuple((fact[1], fact[2]) for fact in _FACT.finditer(text))
    pattern = re.compile(_FACT.sub(lambda fact: f"({_KINDS[fact[2]]})", text), re.ASCII)
    return Line(
        pattern,
        kinds,
        Milestone[row["milestone"].upper()] if "milestone" in row else None,
        FailureKind(row["kind"]) if "kind" in row else None,
    )


def _value(kind: str, text: str) -> Value:
    if kind == "gib":
        return round(float(text) * _GIB)
    if kind == "mib":
        return round(float(text) * 2**20)
    if kind == "size":
        number, unit = text.split()
        return round(float(number) * _UNITS[unit])
    if kind == "platform":  # in the words of the KV cache's line
        return "GPU" if text == "cuda" else text.upper()
    if kind == "float":
        return float(text)
    if kind == "settings":
        return option_words(text)
    if kind in ("int", "bytes"):
        return int(text.replace(",", ""))
    return text.strip()
