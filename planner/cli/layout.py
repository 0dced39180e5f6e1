"""Text in the columns of a terminal: lines that are wrapped at words, and tables.

Rich lays out far more and takes as long to import as a fifth of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import Final

from msgspec import Struct, field

_WORD: Final = re.compile(r"\s*\S+\s*")
_FIRST_COMBINING: Final = "\u0300"  # letters before it take one cell each

Piece = tuple[str, str | None]  # text and its style


def cells(text: str) -> int:
    """Columns of a terminal that a text without line breaks takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@cache
def _cells(letter: str) -> int:
    if letter < _FIRST_COMBINING:
        return 1
    from unicodedata import category, east_asian_width  # few texts need it

    if category(letter) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken between words, a longer word anywhere; no tabs."""
    return [line for given in text.split("\n") for line in _wrapped(given, width)]


def _wrapped(line: str, width: int) -> list[str]:
    if cells(line) <= width:
        return [line]
    lines, current = [], ""
    for word in _WORD.findall(line) or [line]:
        if cells(current) + cells(word.rstrip()) > width:
            if current:
                lines.append(current)
            *full, word = _chopped(word, width) if cells(word.rstrip()) > width else [word]
            lines += full
            current = ""
        current += word
    lines.append(current)
    return [_without_excess(each, width) for each in lines]


def _chopped(word: str, width: int) -> list[str]:
    """Pieces of at most `width` cells."""
    pieces, start, taken = [], 0, 0
    for index, letter in enumerate(word):
        size = _cells(letter)
        if taken + size > width and index > start:
            pieces.append(word[start:index])
            start, taken = index, 0
        taken += size
    return [*pieces, word[start:]]


def _without_excess(line: str, width: int) -> str:
    """The line with no more blanks at its end than there is room for."""
    excess = cells(line) - width
    blanks = len(line) - len(line.rstrip())
    return line[: len(line) - min(blanks, excess)] if excess > 0 else line


class Column(Struct, frozen=True):
    """How the cells of a column are laid out."""

    heading: str = ""
    right: bool = False  # aligned there
    at_least: int = 0  # cells
    at_most: int | None = None
    whole: bool = False  # nothing in it is broken


class Table(Struct):
    """Rows of aligned cells, below headings if there are any; a cell may have several lines."""

    columns: Sequence[Column | str] = ()  # a heading alone; those not given are plain
    gap: int = 2  # cells between columns
    rows: list[tuple[Piece, ...]] = field(default_factory=list)

    def add(self, *texts: str | Piece, style: str | None = None) -> None:
        """A row: its cells, with styles of their own or one for all."""
        self.rows.append(tuple((t, style) if isinstance(t, str) else t for t in texts))

    def lines(self, width: int, shown: Callable[[str], str] = str) -> Iterator[list[Piece]]:
        """What to print on `width` cells: of each line the text of every column.

        `shown` makes of each text what can be shown.
        """
        columns = [Column(c) if isinstance(c, str) else c for c in self.columns]
        columns += [Column()] * (max(map(len, self.rows), default=0) - len(columns))
        rows = [tuple((shown(text), style) for text, style in row) for row in self.rows]
        has_headings = any(column.heading for column in columns)
        if has_headings:
            rows.insert(0, tuple((shown(column.heading), "bold") for column in columns))
        widths = self._widths(columns, rows, width)
        for index, row in enumerate(rows):
            cut = [wrap(text, inner) for (text, _), (inner, _) in zip(row, widths, strict=True)]
            if has_headings and index == 0:  # they end together, just above the first row
                height = max(map(len, cut))
                cut = [[""] * (height - len(lines)) + lines for lines in cut]
            for texts in zip_longest(*cut, fillvalue=""):
                yield [
                    (_aligned(text, column.right, inner) + " " * gap, style)
                    for text, column, (_, style), (inner, gap) in zip(
                        texts, columns, row, widths, strict=True
                    )
                ]

    def _widths(
        self, columns: Sequence[Column], rows: Sequence[tuple[Piece, ...]], width: int
    ) -> list[tuple[int, int]]:
        """Cells of every column, and of the gap behind it."""
        gaps = [self.gap] * (len(columns) - 1) + [0]
        wanted = []
        for index, column in enumerate(columns):
            texts = (line for row in rows for line in row[index][0].split("\n"))
            size = max(column.at_least, *map(cells, texts))
            wanted.append(min(size, column.at_most or size))
        taken = [min(size + gap, width) or 1 for size, gap in zip(wanted, gaps, strict=True)]
        shrunk = _shrunk(taken, [not column.whole for column in columns], width)
        return [
            (max(min(size, 1), left - gap), gap)
            for size, left, gap in zip(wanted, shrunk, gaps, strict=True)
        ]


def _shrunk(widths: list[int], may_shrink: Sequence[bool], room: int) -> list[int]:
    """Widths that fit: the widest lose first, all alike, until they are as wide as the next."""
    while (excess := sum(widths) - room) > 0:
        able = [width for width, may in zip(widths, may_shrink, strict=True) if may]
        widest = max(able, default=0)
        if widest == 0:
            break
        step = widest - max((width for width in able if width < widest), default=0)
        left = able.count(widest)
        for index, may in enumerate(may_shrink):
            if may and widths[index] == widest:
                taken = min(step, round(excess / left))
                widths[index] -= taken
                excess, left = excess - taken, left - 1
    return widths


def _aligned(text: str, right: bool, width: int) -> str:
    text = text.rstrip() if right else text
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks
