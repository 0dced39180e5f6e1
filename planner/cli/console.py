"""Where output goes: styles on a terminal, plain text in a pipe, errors on stderr."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from io import TextIOWrapper
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, NoReturn

from planner.cli.layout import Piece, Table, wrap
from planner.command.secrets import redacted

if TYPE_CHECKING:
    from pydantic import BaseModel

_PIPE_WIDTH = 80
_NARROWEST = 20  # on a terminal that is narrower, or says so (COLUMNS=0), nothing could be read
_PLAIN = "vplan.plain"  # error handler of encodings that lack a character
_PLAIN_CHARACTERS = {"±": "+-", "×": "x", "…": "..."}
# The parts of a style by their codes (ECMA-48, 8.3.117; bright ones are aixterm's).
_SHAPES: Final = {"bold": "1", "dim": "2"}
_COLOURS: Final = {
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
    "bright_black": "90", "bright_blue": "94",
}  # fmt: skip


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


def say(text: str = "", style: str | None = None) -> None:
    """A line of text, wrapped at words."""
    for line in wrap(_shown(text), _width()):
        print(_painted(line, style))


def say_item(text: str, style: str | None = None) -> None:
    """An entry of a list: what does not fit in its line goes on below its text."""
    row = Table(gap=1)
    row.add(" -", text, style=style)
    show(row)


def say_verbatim(text: str) -> None:
    """Text that must not be wrapped, because it is copied."""
    print(_shown(text))


def say_pieces(pieces: Iterable[Piece]) -> None:
    """A line that is no wider than any terminal, in several styles."""
    print("".join(_painted(text, style) for text, style in pieces))


def show(table: Table) -> None:
    """A table with nothing cut off: what is too wide goes on in the next line."""
    for line in table.lines(_width(), _shown):
        say_pieces(line)


def _shown(text: str) -> str:
    """What the stream can show, so that widths are right in any encoding.

    Configs and folders come from strangers: nothing in them may steer the terminal.
    """
    text, encoding = (
        printable(redacted(text.expandtabs()), keep="\n"),
        sys.stdout.encoding or "utf-8",
    )
    return text if text.isascii() else text.encode(encoding, _PLAIN).decode(encoding)


def _width() -> int:
    """Cells of a line."""
    if not sys.stdout.isatty():
        return _PIPE_WIDTH
    return max(get_terminal_size().columns, _NARROWEST)


def _painted(text: str, style: str | None) -> str:
    """The text in a style, or as it is where that cannot be shown (https://no-color.org)."""
    if style is None or not _shows_styles():
        return text
    words = [word for word in style.split() if word in _SHAPES or not os.environ.get("NO_COLOR")]
    codes = ";".join((_SHAPES | _COLOURS)[word] for word in words)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _shows_styles() -> bool:
    is_terminal = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    return is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


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
