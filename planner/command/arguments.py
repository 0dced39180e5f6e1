"""The arguments of `vllm serve` as that release's own parser reads them.

Dashes and underscores are one, unique prefixes stand for the whole, `--option.key value` sets a
key of a JSON option, a YAML file of `--config` comes before what the command line says. What took
the place of an option that is gone is read in its stead.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from planner.command.config_file import read_words
from planner.command.secrets import STARS, is_secret
from planner.command.values import as_json, convert, merged, nested
from planner.engine.flags import accepts_flag
from planner.engine.options import (
    Option,
    Takes,
    abbreviated,
    closed_choices,
    is_deprecated,
    known_option,
    releases_with,
    similar_options,
)
from planner.engine.releases import Release, release_key
from planner.engine.replacements import (
    Gone,
    Instead,
    gone,
    has_key_of,
    left_at,
    replaced_in_names,
    speculative_option,
)
from planner.findings import Finding, Severity

SPECULATIVE: Final = "--speculative-config"
_SHORT: Final = {
    "--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens",
}  # fmt: skip


class Given(Struct, frozen=True):
    """One option as it was written, and the option string that the release has for it.

    `name` is None where it has none, and `why` says why. What then comes instead follows, and was
    not written by anybody.
    """

    word: str
    name: str | None
    key: str | None = None  # of a JSON option
    values: tuple[str, ...] = ()
    why: str | None = None
    instead: bool = False  # of the one before it that has no name

    @property
    def written(self) -> str:
        """As it was written, for a line of text; a secret as stars."""
        name, equals, _ = self.word.partition("=")
        if is_secret(name):
            return f"{name}{equals or ' '}{STARS}" if self.values else name
        return shlex.join((self.word, *(v for v in self.values if f"={v}" not in self.word)))


class Arguments(Struct):
    """What was given: settings by vLLM's name of them, and what its parser would not accept."""

    model: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    given: list[Given] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read_arguments(words: Sequence[str], release: Release) -> Arguments:
    """Arguments of a launch. What is wrong with one is a finding, and the next is read."""
    reader = _Reader(release)
    reader.read(list(words))
    reader.finish()
    return reader.found


class _Reader:
    def __init__(self, release: Release) -> None:
        self.release = release
        self.found = Arguments()
        self.old: list[str] = []  # options of before `--speculative-config`
        self.by_key: dict[str, dict[str, Any]] = {}  # what of JSON options came key by key
        self.of_file: set[str] = set()  # settings that a file made, and no option yet

    def read(self, words: list[str]) -> None:
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word == "--":
                continue
            if not _is_option(word):
                self._position(word)
                continue
            name, equals, value = word.partition("=")
            values = [value] if equals else []
            name, key = _split_key(name)
            option = self._option(name)
            takes = option.takes if option is not None else Takes.PERHAPS
            if not equals and takes is not Takes.SWITCH:
                limit = {Takes.SEVERAL: len(words)}.get(takes, at + 1)
                while at < min(limit, len(words)) and not _is_option(words[at]):
                    values.append(words[at])
                    at += 1
            self._take(word, name, option, key, tuple(values))

    def finish(self) -> None:
        """Say once what replaces all the options of speculation that are gone."""
        if self.old:
            settings = self.found.settings.get("speculative_config") or {}
            text = f"{', '.join(self.old)}: vLLM has had no such options since before 0.8.5"
            fix = f"{SPECULATIVE} {shlex.quote(as_json(settings))}"
            self.found.findings.insert(0, Finding("option_gone", Severity.ERROR, text, fix))

    def _position(self, word: str) -> None:
        if self.found.model is None:
            self.found.model = word
        else:
            self._say("stray_argument", f"{word!r} belongs to no option")

    def _option(self, name: str) -> Option | None:
        """The option that a name stands for in this release, else in any; None if in none."""
        if accepts_flag(self.release, name):
            return known_option(name, self.release)
        short = self._abbreviated(name)
        known = known_option(name)
        if len(short) == 1 or (short and known is None and len({_dest(s) for s in short}) == 1):
            return known_option(short[0], self.release)
        old = speculative_option(name)
        if old is not None:
            takes = Takes.SWITCH if old.type in (None, "bool") else Takes.VALUE
            return Option(name, "speculative_config", takes, old.type, False)
        return known

    def _abbreviated(self, name: str) -> list[str]:
        return abbreviated(name, self.release) if name.startswith("--") and len(name) > 4 else []

    def _take(
        self, word: str, name: str, option: Option | None, key: str | None, values: tuple[str, ...]
    ) -> None:
        """One option with its values: set it, or say what is wrong with it."""
        if option is not None and accepts_flag(self.release, option.name):
            self._set(Given(word, option.name, key, values), option)
        elif speculative_option(name) is not None:
            self._speculative(word, name, values)
        elif _is_level(name) and accepts_flag(self.release, "--optimization-level"):
            level = values or (name[2:],)
            self.found.given.append(Given(word, "--optimization-level", None, level))
            self.found.settings["optimization_level"] = level[0]
        else:
            self._miss(word, name, option, values)

    def _miss(self, word: str, name: str, option: Option | None, values: tuple[str, ...]) -> None:
        """An option that the release does not have."""
        release, short = self.release.name, self._abbreviated(name)
        if option is None and short:
            text = f"{name} may mean {' or '.join(short[:3])}"
            self._say("ambiguous_option", text)
            self.found.given.append(Given(word, None, None, values, text))
            return
        if option is None:
            close = similar_options(name, self.release)
            hint = f"did you mean {' or '.join(close)}?" if close else None
            text = f"vLLM has no option {name}"
            self._say("unknown_option", text, hint)
            self.found.given.append(Given(word, None, None, values, text))
            return
        span = releases_with(name)
        assert span is not None
        text = f"vLLM {release} has no option {name}"
        if release_key(span[0]) > release_key(release):
            why = f"it came with {span[0]}"
            self._say("unknown_option", text, f"vLLM has it from {span[0]} to {span[1]}")
            self.found.given.append(Given(word, None, None, values, why))
            return
        self._gone(word, option, values, span)

    def _gone(
        self, word: str, option: Option, values: tuple[str, ...], span: tuple[str, str]
    ) -> None:
        """An option that an older release had: read what took its place."""
        left = left_at(span[1])
        went = f"it went with {left}" if left is not None else "it went"
        became = gone(option, values, self.release) or Gone("nothing took its place")
        instead = " ".join(_shown(each) for each in became.instead)
        why = went if replaced_in_names(became.why) else f"{went}: {became.why}"
        text = f"vLLM {self.release.name} has no option {option.name}; {why}"
        fix = f"write {instead}" if instead else "leave it out"
        self._say("unknown_option", text, f"{fix}; vLLM has it from {span[0]} to {span[1]}")
        self.found.given.append(Given(word, None, None, values, why))
        for each in became.instead:
            replaced = known_option(each.name, self.release)
            assert replaced is not None
            self._set(Given(each.name, each.name, each.key, each.values, None, True), replaced)

    def _speculative(self, word: str, name: str, values: tuple[str, ...]) -> None:
        """An option of before `--speculative-config`, as a key of it."""
        old = speculative_option(name)
        assert old is not None
        if old.type in (None, "bool"):
            values = ("true",)
        why = "since before 0.8.5 it is part of --speculative-config"
        if not has_key_of(old, self.release):
            why = f"gone since before 0.8.5: {old.why}"
            self._say("option_gone", f"{name}: {why}", "leave it out")
            self.found.given.append(Given(word, None, None, values, why))
            return
        self.old.append(name)
        self.found.given.append(Given(word, None, None, values, why))
        option = Option(SPECULATIVE, "speculative_config", Takes.VALUE, "json", False)
        if not values:
            self._say("missing_value", f"{name} needs a value")
            return
        try:
            value = convert(old.type, values[0])
        except ValueError as error:
            self._say("bad_value", f"{name} {values[0]}: {error} is expected")
            return
        text = as_json(value)
        self.found.given.append(Given(SPECULATIVE, SPECULATIVE, old.key, (text,), None, True))
        self._merge(option.dest, {old.key: value})

    def _set(self, given: Given, option: Option) -> None:
        dest, values = option.dest, given.values
        if option.takes is Takes.SWITCH:
            if values:
                self._say("bad_value", f"{given.word}: a switch takes no value")
            self._note(replace(given, values=()), option, not option.negation)
            return
        if not values:
            if option.takes is Takes.VALUE:
                self._say("missing_value", f"{option.name} needs a value")
                given = replace(given, name=None, why="it needs a value")
            self.found.given.append(given)
            return
        type_ = None if given.key is not None else option.type
        try:
            read = [convert(type_, each) for each in values]
        except ValueError as error:
            self._say("bad_value", f"{option.name} {values[0]}: {error} is expected")
            self.found.given.append(replace(given, name=None, why=f"{error} is expected"))
            return
        if given.key is None and not self._is_choice(option, values):
            self.found.given.append(replace(given, name=None, why="no such value"))
            return
        value = read if option.takes is Takes.SEVERAL else read[0]
        if option.name in _SHORT:
            self._clash(option.name, _SHORT[option.name])
            self.found.given.append(given)
            self._merge("speculative_config", {_SHORT[option.name]: value})
        elif given.key is not None:
            self.found.given.append(given)
            self._merge(dest, nested(given.key.split("."), _plain(values[0])))
        elif dest == "config":
            self._read_file(str(value))
        elif dest == "model":
            self.found.model = str(value)
        elif isinstance(value, dict):
            self._note(given, option, merged(value, self.by_key.get(dest, {})))
        else:
            self._note(given, option, value)

    def _note(self, given: Given, option: Option, value: Any) -> None:
        """A plain setting; the last of several is the one that counts."""
        known = self.found.settings.get(option.dest)
        if option.dest in self.of_file:
            self._forget(option.dest)
        elif option.dest in self.found.settings and option.dest not in self.by_key:
            if known == value:
                return
            self._forget(option.dest)
            text = f"{option.name} is given twice: the last one counts"
            self._say("repeated_option", text, severity=Severity.WARNING)
        if is_deprecated(option.dest, self.release):
            became = gone(option, given.values, self.release)
            fix = " ".join(map(_shown, became.instead)) if became and became.instead else None
            text = f"{option.name} is deprecated in vLLM {self.release.name}, and will go"
            fix = f"write {fix}" if fix else "leave it out" if became else None
            self._say("deprecated_option", text, fix, Severity.WARNING)
        self.found.given.append(given)
        self.found.settings[option.dest] = value

    def _is_choice(self, option: Option, values: tuple[str, ...]) -> bool:
        choices = closed_choices(option.dest, self.release)
        wrong = [value for value in values if choices and value not in choices]
        if wrong:
            one_of = ", ".join(choices if len(choices) < 20 else (*choices[:20], "..."))
            text = f"{option.name} {wrong[0]}: vLLM {self.release.name} knows no such value"
            self._say("bad_choice", text, f"one of {one_of}")
        return not wrong

    def _clash(self, name: str, key: str) -> None:
        """A short option and the same key in the JSON exclude each other."""
        known = self.found.settings.get("speculative_config")
        if isinstance(known, dict) and key in known:
            text = f"{name} and {key} in {SPECULATIVE} exclude each other"
            self._say("conflicting_options", text, "leave one of them out")

    def _forget(self, dest: str) -> None:
        """Nothing is given twice: the last one counts, and the command line more than a file."""
        self.of_file.discard(dest)
        kept = [each for each in self.found.given if each.name is None or _dest(each.name) != dest]
        self.found.given[:] = kept

    def _merge(self, dest: str, part: Mapping[str, Any]) -> None:
        known = self.found.settings.get(dest)
        self.by_key[dest] = merged(self.by_key.get(dest, {}), part)
        self.found.settings[dest] = merged(known if isinstance(known, dict) else {}, part)

    def _read_file(self, name: str) -> None:
        """Settings of a YAML file, which give way to the command line's."""
        before, self.found = self.found, Arguments()
        self.read(list(read_words(name, self.release)))
        inside, self.found = self.found, before
        before.findings += inside.findings
        before.model = before.model or inside.model
        dests = {each.name: _dest(each.name) for each in inside.given if each.name is not None}
        before.given[:0] = [
            each
            for each in inside.given
            if each.name is None or dests[each.name] not in before.settings
        ]
        self.of_file |= inside.settings.keys() - before.settings.keys()
        before.settings = inside.settings | before.settings

    def _say(
        self, code: str, text: str, fix: str | None = None, severity: Severity = Severity.ERROR
    ) -> None:
        self.found.findings.append(Finding(code, severity, text, fix))


def _shown(instead: Instead) -> str:
    """What to write, for a line of text."""
    if instead.key is None:
        return shlex.join((instead.name, *instead.values))
    part = nested(instead.key.split("."), _plain(instead.values[0]))
    return f"{instead.name} {shlex.quote(as_json(part))}"


def _is_option(word: str) -> bool:
    """Not a negative number."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


def _is_level(name: str) -> bool:
    """`-O`, `-O3`: vLLM's parser takes them apart itself."""
    return name.startswith("-O") and name[2:] in ("", "0", "1", "2", "3")


def _split_key(name: str) -> tuple[str, str | None]:
    """`--option_name.some_key` as the option's own spelling and the key."""
    head, dot, key = name.partition(".")
    if head.startswith("--"):
        head = "--" + head[2:].replace("_", "-")
    return head, key.replace("-", "_") if dot else None


def _dest(name: str) -> str | None:
    option = known_option(name)
    return option.dest if option is not None else None


def _plain(text: str) -> Any:
    """A value of a dotted key: JSON where it is that, else text."""
    try:
        return convert("json", text)
    except ValueError:
        return text
