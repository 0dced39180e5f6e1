"""The options of `vllm serve`, release by release: what each sets and takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from planner.engine.flags import accepts_flag, present_in
from planner.engine.releases import Release, known_releases, read_data


class Takes(Enum):
    """How many words follow an option."""

    SWITCH = "switch"
    VALUE = "value"
    SEVERAL = "multi"
    PERHAPS = "optional_value"


@dataclass(frozen=True, slots=True)
class Option:
    """An option string: the setting behind it, what it takes, and its type in vLLM's parser."""

    name: str
    dest: str
    takes: Takes
    type: str | None
    negation: bool  # it turns a switch off


def known_option(name: str) -> Option | None:
    """An option of any release."""
    row = read_data("options.json")["options"].get(name)
    if row is None:
        return None
    dest, kind, type_, negation = row
    return Option(name, dest, Takes(kind), type_, negation)


def abbreviated(prefix: str, release: Release) -> list[str]:
    """Options of the release that begin so: a unique one may be written short."""
    names = read_data("options.json")["options"]
    long = (name for name in names if name.startswith("--") and name.startswith(prefix))
    return [name for name in long if accepts_flag(release, name)]


def similar_options(name: str, release: Release) -> list[str]:
    """Options of the release that look like a name that it does not have."""
    from difflib import get_close_matches  # slow to import, needed for errors only

    names = [each for each in read_data("options.json")["options"] if accepts_flag(release, each)]
    return get_close_matches(name, names, n=2, cutoff=0.75)


def releases_with(name: str) -> tuple[str, str] | None:
    """First and last release that have an option; None if none has."""
    runs = read_data("flags.json")["flags"].get(name)
    if not runs:
        return None
    known = known_releases()
    return known[runs[0][0]], known[runs[-1][1]]


def has_speculative_key(key: str, release: Release) -> bool:
    """Whether `--speculative-config` has the key in that release."""
    return present_in(read_data("options.json")["speculative_config"].get(key), release)
