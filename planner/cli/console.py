"""Where output goes: Rich on a terminal, plain text in a pipe, errors on stderr."""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress
from functools import cache
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

from planner.command.secrets import redacted

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.table import Table

_PIPE_WIDTH = 80
_NARROWEST = 20  # on a terminal that is narrower, or says so (COLUMNS=0), nothing could be read
_PLAIN = "vplan.plain"  # error handler of encodings that lack a character
_PLAIN_CHARACTERS = {"±": "+-", "×": "x", "…": "..."}


def prepare_streams() -> None:
    """No output can fail: a closed stream swallows it, what cannot be encoded becomes plain."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(_PLAIN_CHARACTERS.get(letter, "?") for letter in unknown), error.end


codecs.register_error(_PLAIN, _plain)


@cache
def console() -> Console:
    """The console of standard output."""
    from rich.console import Console
    from rich.text import Text

    class EncodableConsole(Console):
        """Lays out what the stream can show, so that widths are right in any encoding.

        Configs and folders come from strangers: nothing in them may steer the terminal.
        """

        def render_str(self, text: str, **options: Any) -> Text:
            encoding = sys.stdout.encoding or "utf-8"
            shown = printable(redacted(text), keep="\n\t").encode(encoding, _PLAIN).decode(encoding)
            return super().render_str(shown, **options)

    interactive = sys.stdout.isatty()
    made = EncodableConsole(
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        width=None if interactive else _PIPE_WIDTH,
    )
    made.width = max(made.width, _NARROWEST)
    return made


def say(text: str = "", style: str | None = None) -> None:
    """A line of text, wrapped at words."""
    console().print(text, style=style)


def say_item(text: str, style: str | None = None) -> None:
    """An entry of a list: what does not fit in its line goes on below its text."""
    from rich.table import Table

    row = Table.grid(padding=(0, 1))
    row.add_row(" -", text)
    console().print(row, style=style or None)


def say_verbatim(text: str, style: str | None = None) -> None:
    """Text that must not be wrapped: it is copied, or its lines are laid out already."""
    console().print(text, style=style, soft_wrap=True)


def show(table: Table) -> None:
    """A table with nothing cut off: what is too wide goes on in the next line."""
    for column in table.columns:
        column.overflow = "fold"
    console().print(table)


def fail(message: str) -> None:
    """One line on stderr, with nothing a terminal would act on, nor a key somebody repeated."""
    print(f"vplan: {printable(redacted(' '.join(message.split())))}", file=sys.stderr)


def printable(text: str, keep: str = "") -> str:
    """The text with escapes for what is not printable and not in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def print_json(report: BaseModel) -> None:
    """A report as JSON, indented, never wrapped, in ASCII for any encoding."""
    import json

    print(redacted(json.dumps(report.model_dump(mode="json"), indent=2)))


def leave(status: int) -> NoReturn:
    """End the process. What the interpreter would clear away at its end ends with it, sooner."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a reader that has gone, a stream that is closed
            if stream is not None:
                stream.flush()
    os._exit(status)
