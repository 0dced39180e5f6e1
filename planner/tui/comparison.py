"""Plans side by side as a table: numbers at the right, and how they differ from the first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from textual.content import Content

from planner.cli.comparison_text import change, shown
from planner.comparison import Comparison
from planner.comparison import Row as Compared
from planner.quantity import Quantity
from planner.tui.show import DIM, plain, shorten

_WIDEST_GAP: Final = 3  # columns between two sides
_BAND: Final = re.compile(r"\[[^\]]*\] ?")


class Cell(Struct, frozen=True):
    """A number of one side, what follows it (band, unit), and how it differs from the first."""

    number: str
    rest: str = ""
    differs: str = ""


class Side(Struct, frozen=True):
    """A column of the table."""

    name: str
    cells: tuple[Cell, ...]

    def widths(self) -> tuple[int, int, int]:
        """Columns of the numbers, of what follows them, and of the differences."""
        parts = [(len(each.number), len(each.rest), len(each.differs)) for each in self.cells]
        number, rest, differs = (max(sizes) for sizes in zip(*parts, strict=True))
        return number, rest, differs

    def width(self) -> int:
        """Columns of all that with the spaces between them."""
        number, rest, differs = self.widths()
        return number + 1 + rest + (1 + differs if differs else 0)

    def without_bands(self) -> Side:
        """The same in fewer columns."""
        cells = tuple(
            Cell(each.number, _BAND.sub("", each.rest), each.differs) for each in self.cells
        )
        return Side(self.name, cells)


def comparison(names: Sequence[str], compared: Sequence[Comparison], width: int) -> list[Content]:
    """The tables of numbers and of settings that differ, in so many columns.

    `names` are those of the first side and of each of `compared`, which all have it as their first.
    """
    rows = list(dict.fromkeys((row.name, row.unit) for each in compared for row in each.rows))
    settings = list(dict.fromkeys(each.setting for one in compared for each in one.differences))
    labels = max(len(text) for text in (*(name for name, _ in rows), *settings)) + 2
    sides = _sides(names, compared, rows)
    gaps, room = len(sides) - 1, width - labels
    if sum(side.width() for side in sides) + gaps * _WIDEST_GAP > room:
        sides = [side.without_bands() for side in sides]
    room -= sum(side.width() for side in sides)
    gap = max(1, min(_WIDEST_GAP, room // gaps))
    spare = max(0, room - gaps * gap) // len(sides)
    widths = [
        side.width() + min(spare, max(0, len(side.name) - side.width())) + gap for side in sides
    ]
    widths[-1] -= gap  # nothing stands behind the last
    heading = _line("", labels, [(s.name, "bold") for s in sides], widths)
    numbers = [heading]
    for at, (name, _) in enumerate(rows):
        numbers.append(_numbers(name, labels, [(s, s.cells[at]) for s in sides], widths))
    found = [Content("\n").join(numbers)]
    if settings:
        lines = [_line(name.replace("_", " "), labels, [(text, "") for text in values], widths)
                 for name, values in _settings(settings, compared)]  # fmt: skip
        found.append(Content("\n").join([heading, *lines]))
    return found


def _sides(
    names: Sequence[str], compared: Sequence[Comparison], rows: Sequence[tuple[str, object]]
) -> list[Side]:
    cells: list[list[Cell]] = [[] for _ in names]
    for key in rows:
        found = [
            next((row for row in each.rows if (row.name, row.unit) == key), None)
            for each in compared
        ]
        first = next(row for row in found if row is not None)
        cells[0].append(_cell(first, first.one))
        for side, row in zip(cells[1:], found, strict=True):
            side.append(Cell("-") if row is None else _cell(row, row.other, change(row)))
    return [Side(name, tuple(side)) for name, side in zip(names, cells, strict=True)]


def _cell(row: Compared, quantity: Quantity | None, differs: str = "") -> Cell:
    text = shown(row, quantity).replace("under ", "<").replace("over ", ">")
    number, _, rest = text.partition(" ")
    return Cell(number, rest, differs)


def _settings(
    settings: Sequence[str], compared: Sequence[Comparison]
) -> Iterator[tuple[str, list[str]]]:
    """Settings that are not the same in all of them, with the value of each."""
    for name in settings:
        found = [
            next((each for each in one.differences if each.setting == name), None)
            for one in compared
        ]
        mine = next(each.one for each in found if each is not None)
        yield name, [mine, *(mine if each is None else each.other for each in found)]


def _numbers(
    name: str, labels: int, cells: Sequence[tuple[Side, Cell]], widths: Sequence[int]
) -> Content:
    parts: list[tuple[str, str]] = [(f"{plain(name):<{labels}}", DIM)]
    for (side, cell), width in zip(cells, widths, strict=True):
        number, rest, differs = side.widths()
        parts += [(f"{cell.number:>{number}} ", "bold"), (f"{cell.rest:<{rest}}", "")]
        parts.append((f" {cell.differs:<{differs}}" if differs else "", "italic"))
        parts.append((" " * (width - side.width()), ""))
    return Content.assemble(*parts)


def _line(
    name: str, labels: int, values: Sequence[tuple[str, str]], widths: Sequence[int]
) -> Content:
    cells = [
        (f"{shorten(plain(text), width - 1):<{width}}", style)
        for (text, style), width in zip(values, widths, strict=True)
    ]
    return Content.assemble((f"{plain(name):<{labels}}", DIM), *cells)
