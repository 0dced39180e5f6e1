"""A planned launch in the formats that people deploy, one module a format."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from planner.errors import PlanError

if TYPE_CHECKING:  # the names of formats are asked for where nothing is written yet
    from planner.command.render import Command
    from planner.memory.plan import MemoryPlan

# Format: the module of that name here, with its `render(deployment)`.
FORMATS: Final = {
    "command": "shell",
    "yaml": "config_yaml",
    "docker": "docker",
    "compose": "compose",
    "kubernetes": "kubernetes",
    "ray": "ray",
    "systemd": "systemd",
}


def export(
    memory: MemoryPlan,
    format: str,
    *,
    command: Command | None = None,
    environ: Sequence[tuple[str, str]] = (),
) -> str:
    """A launch as the text of a file, or of a command to paste, that ends in a newline.

    `format` is one of `FORMATS`, `command` what `render_command` makes of the plan if left out,
    `environ` the variables that the plan depends on: those that hold secrets are referred to, never
    written; a secret inside of another value becomes stars. Raises `PlanError` for an unknown
    format and for what a format cannot express.
    """
    if format not in FORMATS:
        raise PlanError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    from planner.command.exports.deployment import Deployment
    from planner.command.render import render_command
    from planner.command.secrets import redacted

    deployment = Deployment(memory, command or render_command(memory), tuple(environ))
    module = import_module(f"{__name__}.{FORMATS[format]}")
    return redacted(module.render(deployment))
