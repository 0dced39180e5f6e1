"""The last session: its settings, kept where the system keeps a program's state."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_state_path

from planner.errors import PlanError
from planner.plan_file import read_plan, write_plan
from planner.settings import Settings

_NAME: Final = "session.yaml"
_ASIDE: Final = "session.unreadable"


def session_file() -> Path:
    """A plan file."""
    return user_state_path("vplan", appauthor=False) / _NAME


def keep(settings: Settings) -> None:
    """Keep settings for the next session; a state folder that cannot be written loses them."""
    path = session_file()
    with suppress(OSError, PlanError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plan(path, settings, force=True)


def restore() -> tuple[Settings | None, str]:
    """The settings of the last session, if there are any, and a line on what became of them.

    A file that cannot be read is set aside, so that it is in nobody's way, and over no other.
    """
    path = session_file()
    try:
        if not path.is_file():
            return None, ""
        return read_plan(path), ""
    except (PlanError, OSError):
        names = (f"{_ASIDE}{f'-{n}' if n > 1 else ''}.yaml" for n in range(1, 1000))
        aside = next((a for name in names if not (a := path.with_name(name)).exists()), path)
        try:
            os.replace(path, aside)
        except OSError:
            return None, f"the last session could not be read: {path}"
        return None, f"the last session could not be read; its file is now {aside}"
