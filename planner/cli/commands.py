"""The commands of `vplan`: each is a function of that name in the module of that name."""

from __future__ import annotations

from typing import Any, Final

# What follows is a command of its own, with options of its own.
_WRAPS: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}
# Settings of each for Typer.
COMMANDS: Final[dict[str, dict[str, Any]]] = {
    "recommend": {}, "check": _WRAPS, "compare": {}, "speculate": {}, "diagnose": {}, "gpus": {},
    "models": {}, "schema": {}, "tui": {}, "validate": _WRAPS, "calibration": {}, "completion": {},
}  # fmt: skip
# Second words that are commands of their own, each in a module "first_second".
BELOW: Final[dict[str, tuple[str, ...]]] = {"models": ("add", "search", "update")}
