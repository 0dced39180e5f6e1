"""Where output goes: Rich on a terminal, plain text in a pipe, errors on stderr."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

_PIPE_WIDTH = 80


@cache
def console() -> Console:
    """The console of standard output."""
    from rich.console import Console

    interactive = sys.stdout.isatty()
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        width=None if interactive else _PIPE_WIDTH,
    )


def say(text: str = "", style: str | None = None) -> None:
    """A line of text, wrapped at words."""
    console().print(text, style=style)


def say_verbatim(text: str) -> None:
    """Text that must not be wrapped, because it is copied."""
    console().print(text, soft_wrap=True)


def fail(message: str) -> None:
    """One line on stderr, with nothing a terminal would act on."""
    line = " ".join(message.split())
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    print(f"vplan: {printable}", file=sys.stderr)


def print_json(report: BaseModel) -> None:
    """A report as JSON, indented, never wrapped."""
    print(report.model_dump_json(indent=2))
