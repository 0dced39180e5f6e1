"""A command as it was given, as flags that can be changed and written down again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from planner.command.arguments import Given
from planner.command.parse import ServeCommand
from planner.command.render import Command, Flag, flag_of
from planner.command.values import as_json, convert, merged, nested
from planner.engine.flags import accepts_flag
from planner.engine.options import known_option
from planner.engine.releases import Release
from planner.engine_config import EngineConfig

_SPECULATIVE = {
    "--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens",
}  # fmt: skip


class Change(Struct, frozen=True):
    """One thing that a corrected command has otherwise, and why."""

    what: str
    why: str


class Rewrite:
    """The flags of a command by what they set. Each change is noted with its reason."""

    def __init__(self, command: ServeCommand) -> None:
        self.model = command.model
        self.release = command.release
        self.environ = dict(command.environ)
        self.changes: list[Change] = []
        self._flags: dict[str, Flag] = {}
        self._objects: dict[str, dict[str, Any]] = {}  # of JSON options
        self._read(command.given)

    def command(self) -> Command:
        """What is to be run."""
        return Command(self.model, tuple(self._written()))

    def _written(self) -> Iterator[Flag]:
        for dest, flag in self._flags.items():
            content = self._objects.get(dest)
            yield Flag(flag.name, as_json(content), flag.reason) if content is not None else flag

    def argv(self) -> list[str]:
        """The same with its environment, as words that can be read again."""
        assigned = [f"{name}={value}" for name, value in self.environ.items()]
        return [*assigned, *self.command().argv]

    def has(self, dest: str) -> bool:
        """Whether something sets `dest`."""
        return dest in self._flags

    def json(self, dest: str) -> dict[str, Any]:
        """The content of a JSON option, to be changed in place."""
        return self._objects.get(dest, {})

    def drop(self, dest: str, why: str) -> None:
        """Leave out what sets `dest`."""
        flag = self._flags.pop(dest, None)
        self._objects.pop(dest, None)
        if flag is not None:
            self.changes.append(Change(f"{flag.name}: left out", why))

    def drop_variable(self, name: str, why: str) -> None:
        """Leave out a variable."""
        if self.environ.pop(name, None) is not None:
            self.changes.append(Change(f"{name}: left out", why))

    def note(self, what: str, why: str) -> None:
        """A change that was made in place."""
        self.changes.append(Change(what, why))

    def set(self, flag: Flag, dest: str, why: str) -> None:
        """Set `dest` by a flag."""
        was = self._flags.get(dest)
        self._flags[dest] = flag
        self._objects.pop(dest, None)
        shown = " ".join(flag.words)
        what = f"{' '.join(was.words)} -> {shown}" if was is not None else f"{shown}: added"
        if was is None or was.words != flag.words:
            self.changes.append(Change(what, why))

    def settle(self, before: EngineConfig, after: EngineConfig, why: str) -> None:
        """Make the flags say `after` where they say `before`, as far as the two differ."""
        departures = after.departures()
        for name, value in asdict(after).items():
            if value == getattr(before, name):
                continue
            flag = flag_of(name, value, "")
            if name not in departures or not accepts_flag(self.release, flag.name):
                self.drop(name, why)
            else:
                self.set(flag, name, why)

    def _read(self, given: Sequence[Given]) -> None:
        for at, each in enumerate(given):
            if each.name is not None:
                self._take(each)
                continue
            instead = takewhile(lambda other: other.instead, given[at + 1 :])
            shown = " ".join(map(_shown, instead))
            what = f"{each.written} -> {shown}" if shown else f"{each.written}: left out"
            self.changes.append(Change(what, each.why or "no release has it"))

    def _take(self, given: Given) -> None:
        assert given.name is not None
        option = known_option(given.name, self.release)
        assert option is not None
        dest, name = option.dest, _long(given.name, option.dest, self.release)
        key = given.key
        if given.name in _SPECULATIVE:
            dest, name, key = "speculative_config", "--speculative-config", _SPECULATIVE[given.name]
        if key is not None:
            part = nested(key.split("."), _plain(given.values[0]))
            self._objects[dest] = merged(self._objects.get(dest, {}), part)
            self._flags.setdefault(dest, Flag(name, None, "as given"))
            return
        first, *more = given.values or (None,)
        content = _plain(first) if first is not None else None
        if isinstance(content, dict) and not more:
            self._objects[dest] = merged(content, self._objects.get(dest, {}))
        more_values = tuple(value for value in more if value is not None)
        self._flags[dest] = Flag(name, first, "as given", more_values)
        if _is_abbreviation(given, name, self.release):
            why = "an abbreviation breaks when a longer option comes"
            self.changes.append(Change(f"{given.word.partition('=')[0]} -> {name}", why))


def _shown(given: Given) -> str:
    if given.key is None:
        return " ".join((given.word, *given.values))
    return f"{given.name} {as_json(nested(given.key.split('.'), _plain(given.values[0])))}"


def _long(name: str, dest: str, release: Release) -> str:
    """The long name of an option that is written short."""
    if name.startswith("--"):
        return name
    long = f"--{dest.replace('_', '-')}"
    return long if accepts_flag(release, long) else name


def _is_abbreviation(given: Given, name: str, release: Release) -> bool:
    word = given.word.partition("=")[0].partition(".")[0].replace("_", "-")
    return word != name and word.startswith("--") and not accepts_flag(release, word)


def _plain(text: str) -> Any:
    try:
        return convert("json", text)
    except ValueError:
        return text
