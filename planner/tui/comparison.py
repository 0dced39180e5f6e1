"""Plans side by side in one grid: numbers at the right of theirs, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.cells import cell_len
from textual.content import Content

from planner.cli.comparison_text import change, label, shown
from planner.comparison import Comparison, Unit
from planner.comparison import Row as Compared
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity
from planner.tui.budget import LOOKS, bar, columns_of_a_byte, letters
from planner.tui.show import DIM, plain, shorten

_GAP: Final = 3  # columns between two sides
_SHORTEST_BAR: Final = 8
_LETTER: Final = 3  # columns of a part's letter and pattern


class Cell(Struct, frozen=True):
    """A number of one side, its band and unit, and how it differs from the first."""

    number: str
    rest: str = ""
    differs: str = ""

    def above(self) -> Cell:
        """Without the band, which then stands below."""
        return Cell(self.number, self.rest.rpartition("]")[2].strip(), self.differs)

    def below(self) -> str:
        """The band."""
        return self.rest[: self.rest.rfind("]") + 1]


class Side(Struct, frozen=True):
    """A column of the table."""

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


class Grid(Struct, frozen=True):
    """Where the labels end, how wide each side is, and whether bands stand below their numbers."""

    labels: int
    widths: tuple[int, ...]
    bands_below: bool

    @classmethod
    def of(cls, labels: int, sides: Sequence[Side], width: int) -> Grid:
        """Equally wide sides, if they fit so, with all that belongs to a number beside it."""
        room, many = width - labels, len(sides)
        wanted = [side.width() for side in sides]
        if max(wanted) + _GAP <= room // many:
            return cls(labels, (room // many,) * many, False)
        below = sum(wanted) + many - 1 > room
        if below:
            wanted = [
                max(Side(tuple(cell.above() for cell in side.cells)).width(),
                    *(len(cell.below()) for cell in side.cells))
                for side in sides
            ]  # fmt: skip
        spare = max(many, room - sum(wanted)) // many
        return cls(labels, tuple(each + spare for each in wanted), below)

    def line(self, title: str, texts: Sequence[str], style: str = "") -> Content:
        """A text for each side, shortened where it is too long."""
        cells = [
            (_padded(shorten(plain(text), width - 1), width), style)
            for text, width in zip(texts, self.widths, strict=True)
        ]
        return Content.assemble((f"{plain(title):<{self.labels}}", DIM), *cells)

    def numbers(self, title: tuple[str, str], at: int, sides: Sequence[Side]) -> Iterator[Content]:
        """The numbers of a row, and a line of their bands if these stand below."""
        name, style = title
        parts: list[tuple[str, str]] = [(f"{name:<{self.labels}}", style)]
        for side, width in zip(sides, self.widths, strict=True):
            shown = Side(tuple(c.above() for c in side.cells)) if self.bands_below else side
            number, rest, differs = shown.widths()
            cell = shown.cells[at]
            parts += [(f"{cell.number:>{number}} ", "bold"), (f"{cell.rest:<{rest}}", "")]
            parts.append((f" {cell.differs:<{differs}}" if differs else "", "italic"))
            parts.append((" " * (width - shown.width()), ""))
        yield Content.assemble(*parts)
        bands = [side.cells[at].below() for side in sides]
        if self.bands_below and any(bands):
            yield self.line("", bands, DIM)


class Tables(Struct, frozen=True):
    """What a comparison shows; `settings` is None where none differs."""

    numbers: Content
    memory: Content | None
    settings: Content | None
    about: Content


def comparison(
    names: Sequence[str],
    compared: Sequence[Comparison],
    about: Sequence[tuple[str, Sequence[str]]],
    width: int,
) -> Tables:
    """The tables in so many columns.

    `names` are those of the first side and of each of `compared`, which all have it as their first;
    `about` what else is said of each, by name.
    """
    rows = list(dict.fromkeys((row.name, row.unit) for each in compared for row in each.rows))
    settings = list(dict.fromkeys(each.setting for one in compared for each in one.differences))
    sides = _sides(compared, rows)
    labels = [name if unit is Unit.BYTES else label(name, unit) for name, unit in rows]
    inside = (f"{' ' * _LETTER}{name}" for name, unit in rows if unit is Unit.BYTES)
    longest = max(map(len, (*labels, *inside, *settings, *(name for name, _ in about))))
    grid = Grid.of(longest + 2, sides, width)
    heading = grid.line("", names, "bold")
    numbers: list[Content] = [heading]
    sizes: list[Content] = []
    plans = [compared[0].one.memory, *(each.other.memory for each in compared)]
    looks = {name: letter for plan in plans if plan for name, letter in letters(plan).items()}
    for at, (name, unit) in enumerate(rows):
        letter = looks.get(name) if unit is Unit.BYTES else None
        style = DIM if letter is None else LOOKS[letter][1]
        title = labels[at] if letter is None else f"{letter}{LOOKS[letter][0]} {labels[at]}"
        lines = grid.numbers((title, style), at, sides)
        (sizes if unit is Unit.BYTES else numbers).extend(lines)
    found = [heading, *_bars(plans, grid), *sizes] if sizes else []
    different = [
        grid.line(name.replace("_", " "), values) for name, values in _settings(settings, compared)
    ]
    return Tables(
        _joined(numbers),
        _joined(found) if found else None,
        _joined([heading, *different]) if different else None,
        _joined([heading, *(grid.line(name, values) for name, values in about)]),
    )


def _joined(lines: Sequence[Content]) -> Content:
    return Content("\n").join(lines)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _bars(plans: Sequence[MemoryPlan | None], grid: Grid) -> Iterator[Content]:
    """The memory of each side's tightest GPU, twice over."""
    pieces = [Content(" " * grid.labels)]
    between = 1 if grid.bands_below else _GAP
    room = max(_SHORTEST_BAR, min(grid.widths) - between)  # the same for all
    for plan, width in zip(plans, grid.widths, strict=True):
        if plan is None:
            drawn = Content("-".ljust(room))
        else:
            drawn = bar(plan, plan.tightest, columns_of_a_byte(plan, room), room)
        pieces.append(drawn + " " * (width - room))
    yield from (Content.assemble(*pieces),) * 2


def _sides(compared: Sequence[Comparison], rows: Sequence[tuple[str, Unit]]) -> list[Side]:
    cells: list[list[Cell]] = [[] for _ in range(len(compared) + 1)]
    for key in rows:
        found = [
            next((row for row in each.rows if (row.name, row.unit) == key), None)
            for each in compared
        ]
        first = next(row for row in found if row is not None)
        cells[0].append(_cell(first, first.one))
        for side, row in zip(cells[1:], found, strict=True):
            side.append(Cell("-") if row is None else _cell(row, row.other, change(row)))
    return [Side(tuple(side)) for side in cells]


def _cell(row: Compared, quantity: Quantity | None, differs: str = "") -> Cell:
    if quantity is None:
        return Cell("-")
    text = shown(row.unit, quantity).replace("under ", "<").replace("over ", ">")
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
