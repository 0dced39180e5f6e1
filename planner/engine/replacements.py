"""What took the place of options, keys, methods and variables that are gone, or why nothing did."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from planner.engine.flags import accepts_flag
from planner.engine.options import Option, has_speculative_key
from planner.engine.releases import Release, read_data, release_key


class Instead(Struct, frozen=True):
    """One option to write instead: `key` is one of its JSON (`a.b` for one inside of another)."""

    name: str
    key: str | None
    values: tuple[str, ...]


class SpeculativeOption(Struct, frozen=True):
    """An option of the years before `--speculative-config`: its key there, and the key's type."""

    key: str
    type: str | None  # None: a switch
    why: str | None  # why a release without the key has none


class Gone(Struct, frozen=True):
    """Why an option is gone, and what to write instead: nothing, if there is no such thing."""

    why: str
    instead: tuple[Instead, ...] = ()


_RENAMED: Final = ("renamed", "moved")


def gone(option: Option, values: tuple[str, ...], release: Release) -> Gone | None:
    """What became of an option that a release does not have; None if nothing is known of it."""
    row = _table()["options"].get(option.dest)
    if row is None:
        return None
    if option.negation:
        return Gone("what it turned off is gone, or off unless it is asked for")
    instead = tuple(each for each in _instead(row, option, values, release) if each is not None)
    if any(not accepts_flag(release, each.name) for each in instead):
        return Gone("what took its place is not in this release either")
    return Gone(row["why"], instead)


def _instead(
    row: dict[str, Any], option: Option, values: tuple[str, ...], release: Release
) -> list[Instead | None]:
    if "values" in row:
        words = row["values"].get(values[0] if values else None, [])
        return [
            Instead(name, None, (value,))
            for name, value in zip(words[::2], words[1::2], strict=True)
        ]
    into = row.get("into")
    if into is None:
        return []
    if "value" in row:
        return [Instead(into, None, (row["value"],))]
    if "single" in row and len(values) == 1:
        return [Instead(row["single"], None, values)]
    key = row.get("key")
    if isinstance(key, list):
        key = next(name for since, name in reversed(key) if release.at_least(since))
    return [Instead(into, key, values or ("true",))]


def replaced_in_names(why: str) -> bool:
    """Whether the words say no more than that it has another name or place."""
    return why.startswith(_RENAMED)


def speculative_option(name: str) -> SpeculativeOption | None:
    """An option that `--speculative-config` replaced before the oldest release that is known."""
    row = _table()["speculative"].get(name)
    return None if row is None else SpeculativeOption(row["key"], row["type"], row.get("why"))


def speculative_options() -> tuple[str, ...]:
    """The names of all of them."""
    return tuple(_table()["speculative"])


def dropped_key(key: str) -> str | None:
    """What to do without a key of `--speculative-config` that is gone; None if it is not known."""
    why: str | None = _table()["speculative_keys"].get(key)
    return why


def dropped_method(method: str) -> str | None:
    """Why a speculative method is not there; None if that is not known."""
    why: str | None = _table()["speculative_methods"].get(method)
    return why


def compilation_key(key: str) -> tuple[str, str | None] | None:
    """Why a key of `--compilation-config` is gone, and the one for it; None if not known."""
    row = _table()["compilation_keys"].get(key)
    return None if row is None else (row["why"], row.get("into"))


def variable_instead(name: str) -> str | None:
    """What does now what an environment variable did; None if that is not known."""
    text: str | None = _table()["variables"].get(name)
    return text


def left_at(last: str) -> str | None:
    """The first known release after `last`; None if that is the newest."""
    releases = read_data("flags.json")["releases"]
    later = [name for name in releases if release_key(name) > release_key(last)]
    return later[0] if later else None


def has_key_of(option: SpeculativeOption, release: Release) -> bool:
    """Whether the release's `--speculative-config` still has the key of an old option."""
    return has_speculative_key(option.key, release)


def _table() -> Any:
    return read_data("replacements.json")
