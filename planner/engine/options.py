"""The options of `vllm serve`, release by release: what each sets and takes, and its default."""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct

from planner.engine.flags import accepts_flag, present_in
from planner.engine.releases import Release, known_releases, read_data


class Takes(Enum):
    """How many words follow an option."""

    SWITCH = "switch"
    VALUE = "value"
    SEVERAL = "multi"
    PERHAPS = "optional_value"


class Option(Struct, frozen=True):
    """An option string: the setting behind it, what it takes, and its type in vLLM's parser."""

    name: str
    dest: str
    takes: Takes
    type: str | None
    negation: bool  # it turns a switch off


def known_option(name: str, release: Release | None = None) -> Option | None:
    """An option of any release, as that release has it, else as the newest one that does."""
    facts = _facts()
    row = facts["options"].get(name)
    if row is None:
        return None
    if release is not None:
        row = _value(facts["earlier"].get(name), release) or row
    dest, kind, type_, negation = row
    return Option(name, dest, Takes(kind), type_, negation)


def default_of(dest: str, release: Release) -> Any:
    """The default of a setting in the parser; None where vLLM decides later, or has none."""
    return _value(_facts()["defaults"].get(dest), release)


def closed_choices(dest: str, release: Release) -> tuple[str, ...]:
    """The values that the parser takes for a setting; empty where it takes any."""
    choices = _facts()["closed"].get(dest, {})
    return tuple(each for each, runs in choices.items() if present_in(runs, release))


def is_deprecated(dest: str, release: Release) -> bool:
    """Whether the release's parser says that a setting will go."""
    return present_in(_facts()["deprecated"].get(dest), release)


def abbreviated(prefix: str, release: Release) -> list[str]:
    """Options of the release that begin so: a unique one may be written short."""
    names = _facts()["options"]
    long = (name for name in names if name.startswith("--") and name.startswith(prefix))
    return [name for name in long if accepts_flag(release, name)]


def similar_options(name: str, release: Release) -> list[str]:
    """Options of the release that look like a name that it does not have."""
    from difflib import get_close_matches  # slow to import, needed for errors only

    names = [each for each in _facts()["options"] if accepts_flag(release, each)]
    return get_close_matches(name, names, n=2, cutoff=0.75)


def releases_with(name: str) -> tuple[str, str] | None:
    """First and last release that have an option; None if none has."""
    return _first_and_last(read_data("flags.json")["flags"].get(name))


def has_speculative_key(key: str, release: Release) -> bool:
    """Whether `--speculative-config` has the key in that release."""
    return present_in(_facts()["speculative_config"].get(key), release)


def releases_with_speculative_key(key: str) -> tuple[str, str] | None:
    """First and last release whose `--speculative-config` has a key; None if none has."""
    return _first_and_last(_facts()["speculative_config"].get(key))


def has_speculative_method(method: str, release: Release) -> bool:
    """Whether the release lists a method, which need not mean that it runs it."""
    return present_in(_facts()["speculative_methods"].get(method), release)


def releases_with_method(method: str) -> tuple[str, str] | None:
    """First and last release that list a speculative method; None if none does."""
    return _first_and_last(_facts()["speculative_methods"].get(method))


def is_mtp_method(method: str, release: Release) -> bool:
    """Whether a method is the MTP of one model family by its own name (`deepseek_mtp`)."""
    return present_in(_facts()["mtp_methods"].get(method), release)


def has_config_key(dest: str, key: str, release: Release) -> bool:
    """Whether a JSON option (`compilation_config`) has a key; True for options not listed."""
    known = _facts()["keys"].get(dest)
    return known is None or present_in(known.get(key), release)


def knows_variable(name: str, release: Release) -> bool:
    """Whether the release reads an environment variable."""
    return present_in(_facts()["environment"].get(name), release)


def releases_with_variable(name: str) -> tuple[str, str] | None:
    """First and last release that read a variable; None if none does."""
    return _first_and_last(_facts()["environment"].get(name))


def _facts() -> Any:
    return read_data("options.json")


def _value(runs: list[Any] | None, release: Release) -> Any:
    """The value of a release among ranges [first, last, value]."""
    index = known_releases().index(release.name)
    return next((value for first, last, value in runs or () if first <= index <= last), None)


def _first_and_last(runs: list[list[int]] | None) -> tuple[str, str] | None:
    if not runs:
        return None
    known = known_releases()
    return known[runs[0][0]], known[runs[-1][1]]
