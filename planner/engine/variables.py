"""The environment variables of vLLM's: which values it can read, and switches that a plan heeds.

From 0.11.1 on its engine reads all when it starts (`enable_envs_cache` of v1/engine/core.py):
one that it cannot read stops the launch, whatever it is for. Before that only some always were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.engine.options import knows_variable
from planner.engine.releases import Release, find_release, read_data

_READ_AT_THE_START: Final = "0.11.1"  # the first release whose engine reads them all


def is_typed_variable(name: str) -> bool:
    """Whether vLLM takes only some values of a variable."""
    return name in _table()


def unreadable(name: str, value: str, release: Release) -> str | None:
    """Why a release cannot read the value of a variable, in one line; None if it can."""
    row = _table().get(name)
    if row is None or not knows_variable(name, release) or not _is_of(row, release):
        return None
    match row["kind"]:
        case "int":
            return None if _is_number(int, value) else f"{name}={value} is no whole number"
        case "float":
            return None if _is_number(float, value) else f"{name}={value} is no number"
        case "choice":
            given = [value]
        case _:  # choices, with commas between
            given = [word.strip() for word in value.split(",") if word.strip()]
    known = row["choices"]
    if row.get("any_case"):
        given, known = [word.lower() for word in given], [word.lower() for word in known]
    if all(word in known for word in given):
        return None
    return f"{name}={value} is none of {', '.join(row['choices'])}"


def stops_the_start(name: str, release: Release) -> bool:
    """Whether a release reads a variable at any start, even if nothing needs it."""
    return (
        release.at_least(_READ_AT_THE_START) or name in read_data("variables.json")["always_read"]
    )


def switch(name: str, environ: Mapping[str, str], release: Release) -> bool | None:
    """What a variable turns on or off (`bool(int(...))`); None where it is not set, or not read."""
    value = environ.get(name)
    if value is None or not knows_variable(name, release) or not _is_number(int, value):
        return None
    return bool(int(value))


def _is_of(row: dict[str, Any], release: Release) -> bool:
    """Whether the release reads it so: others may take any value."""
    since, until = row.get("since"), row.get("until")
    if since is not None and not release.at_least(since):
        return False
    return until is None or find_release(until).at_least(release.name)


def _is_number(kind: type[int] | type[float], value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_data("variables.json")["variables"]
    return found
