"""The arguments of `vllm serve` as that release's own parser reads them.

Dashes and underscores are one, unique prefixes stand for the whole, `--option.key value` sets a
key of a JSON option, a YAML file of `--config` comes before what the command line says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from planner.command.values import convert
from planner.engine.flags import accepts_flag
from planner.engine.options import (
    Option,
    Takes,
    abbreviated,
    known_option,
    releases_with,
    similar_options,
)
from planner.engine.releases import Release
from planner.errors import PlanError
from planner.findings import Finding, Severity

# Options of the years before the oldest release that is known, and what took their place.
REPLACED: Final = {
    "--speculative-model": ("model", "str"),
    "--num-speculative-tokens": ("num_speculative_tokens", "int"),
    "--speculative-draft-tensor-parallel-size": ("draft_tensor_parallel_size", "int"),
    "--ngram-prompt-lookup-max": ("prompt_lookup_max", "int"),
    "--ngram-prompt-lookup-min": ("prompt_lookup_min", "int"),
    "--speculative-max-model-len": ("max_model_len", "int"),
}
_SHORT: Final = {
    "--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens",
}  # fmt: skip


@dataclass(slots=True)
class Arguments:
    """What was given: settings by vLLM's name of them, and what its parser would not accept."""

    model: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)  # options of `REPLACED`
    findings: list[Finding] = field(default_factory=list)


def read_arguments(words: Sequence[str], release: Release) -> Arguments:
    """Arguments of a launch. What is wrong with one is a finding, and the next is read."""
    reader = _Reader(release)
    reader.read(list(words))
    return reader.found


class _Reader:
    def __init__(self, release: Release) -> None:
        self.release = release
        self.found = Arguments()

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
            given = [value] if equals else []
            name, key = _split_key(name)
            option = self._option(name, key)
            takes = option.takes if option is not None else Takes.PERHAPS
            if not equals and takes is not Takes.SWITCH:
                limit = {Takes.SEVERAL: len(words)}.get(takes, at + 1)
                while at < min(limit, len(words)) and not _is_option(words[at]):
                    given.append(words[at])
                    at += 1
            if option is not None:
                self._set(option, key, given, word)

    def _position(self, word: str) -> None:
        if self.found.model is None:
            self.found.model = word
        else:
            self._error("stray_argument", f"{word!r} belongs to no option", None)

    def _option(self, name: str, key: str | None) -> Option | None:
        """The option of a name; None, with a finding, if the release has none."""
        if name in REPLACED:
            self.found.replaced.append(name)
            return Option(name, "speculative_config", Takes.VALUE, REPLACED[name][1], False)
        if accepts_flag(self.release, name):
            return known_option(name)
        short = abbreviated(name, self.release) if name.startswith("--") and len(name) > 4 else []
        known = known_option(name)
        if len(short) == 1 or (short and known is None and len({_dest(s) for s in short}) == 1):
            return known_option(short[0])
        if name.startswith("-O") and accepts_flag(self.release, "--optimization-level"):
            return None  # a level of optimization, which is no setting of the plan
        self._error(*self._unknown(name, short, known))
        return known

    def _unknown(
        self, name: str, short: list[str], known: Option | None
    ) -> tuple[str, str, str | None]:
        release = self.release.name
        if known is not None:
            had = releases_with(name)
            assert had is not None
            since = f"vLLM has it from {had[0]} to {had[1]}"
            return "unknown_option", f"vLLM {release} has no option {name}", since
        if short:
            return "ambiguous_option", f"{name} may mean {' or '.join(short[:3])}", None
        close = similar_options(name, self.release)
        hint = f"did you mean {' or '.join(close)}?" if close else None
        return "unknown_option", f"vLLM has no option {name}", hint

    def _set(self, option: Option, key: str | None, given: list[str], word: str) -> None:
        if option.takes is Takes.SWITCH:
            if given:
                self._error("bad_value", f"{word}: a switch takes no value", None)
            self.found.settings[option.dest] = not option.negation
            return
        if not given:
            if option.takes is Takes.VALUE:
                self._error("missing_value", f"{option.name} needs a value", None)
            return
        type_ = None if key is not None else option.type
        try:
            values = [convert(type_, each) for each in given]
        except ValueError as error:
            self._error("bad_value", f"{option.name} {given[0]}: {error} is expected", None)
            return
        value = values if option.takes is Takes.SEVERAL else values[0]
        if option.name in REPLACED:
            self._merge("speculative_config", {REPLACED[option.name][0]: value})
        elif option.name in _SHORT:
            self._merge("speculative_config", {_SHORT[option.name]: value})
        elif key is not None:
            self._merge(option.dest, _nested(key.split("."), _plain(given[0])))
        elif option.dest == "config":
            self._read_file(str(value))
        elif option.dest == "model":
            self.found.model = str(value)
        else:
            self.found.settings[option.dest] = value

    def _merge(self, dest: str, part: Mapping[str, Any]) -> None:
        known = self.found.settings.get(dest)
        self.found.settings[dest] = {**(known if isinstance(known, dict) else {}), **part}

    def _read_file(self, name: str) -> None:
        """Settings of a YAML file, which give way to the command line's."""
        given = replace(self.found, settings=dict(self.found.settings))
        self.read(list(_words_of(_load(name))))
        self.found.settings |= given.settings
        self.found.model = given.model or self.found.model

    def _error(self, code: str, text: str, fix: str | None) -> None:
        self.found.findings.append(Finding(code, Severity.ERROR, text, fix))


def _is_option(word: str) -> bool:
    """Not a negative number."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


def _split_key(name: str) -> tuple[str, str | None]:
    """`--option_name.some_key` as the option's own spelling and the key."""
    head, dot, key = name.partition(".")
    if head.startswith("--"):
        head = "--" + head[2:].replace("_", "-")
    return head, key.replace("-", "_") if dot else None


def _dest(name: str) -> str | None:
    option = known_option(name)
    return option.dest if option is not None else None


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys[1:]):
        value = {key: value}
    return {keys[0]: value}


def _plain(text: str) -> Any:
    """A value of a dotted key: JSON where it is that, else text."""
    try:
        return convert("json", text)
    except ValueError:
        return text


def _load(name: str) -> dict[str, Any]:
    import yaml  # only here needed

    try:
        content = yaml.safe_load(Path(name).expanduser().read_text("utf-8"))
    except OSError as error:
        raise PlanError(f"cannot read {name}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise PlanError(f"{name} is no YAML file") from None
    if not isinstance(content, dict):
        raise PlanError(f"{name} holds no options")
    return content


def _words_of(content: Mapping[str, Any]) -> Iterator[str]:
    """The options of a YAML file as words of a command line."""
    import json

    for key, value in content.items():
        name = f"--{key}"
        if isinstance(value, bool):
            if value:
                yield name
            continue
        if key in ("model", "model_tag"):
            yield str(value)
            continue
        yield name
        if isinstance(value, dict):
            yield json.dumps(value)
        else:
            yield from (str(each) for each in (value if isinstance(value, list) else [value]))
