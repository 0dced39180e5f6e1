"""Tables of plain text, laid out as Rich would: that takes it a third of a millisecond a cell, and
a list of the known models has thousands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.table import Column, Table


class _Laid(NamedTuple):
    """A column: its texts, the heading first if there is one, and how wide it is."""

    texts: list[str]
    width: int
    right: bool


def plain_lines(table: Table, width: int) -> list[str] | None:
    """The lines of a table, the heading's first; None for one that only Rich can lay out.

    Such are those with a frame, with styles, with characters of other widths than one, and those
    that are wider than `width` columns.
    """
    gap = table.padding[1]
    plain = (
        table.box is None
        and table.padding == (0, gap, 0, 0)
        and not table.pad_edge
        and not any((table.title, table.caption, table.expand, table.show_footer, table.row_styles))
        and not any(row.style or row.end_section for row in table.rows)
    )
    if not plain:
        return None
    columns = []
    for column in table.columns:
        laid = _laid(column, table.show_header)
        if laid is None:
            return None
        columns.append(laid)
    if columns and not columns[-1].width:  # the padding of others makes up for it
        columns[-1] = columns[-1]._replace(width=1)
    if not columns or sum(each.width + gap for each in columns) - gap > width:
        return None
    return [line for texts in zip(*(c.texts for c in columns), strict=True)
            for line in _lines(columns, texts, " " * gap)]  # fmt: skip


def _laid(column: Column, with_heading: bool) -> _Laid | None:
    given = [column.header] if with_heading else []
    texts = [each for each in (*given, *column.cells) if isinstance(each, str)]
    asked = (column.width, column.min_width, column.ratio, column.style or None)
    if len(texts) < len(given) + len(list(column.cells)) or any(each is not None for each in asked):
        return None
    if column.justify not in ("left", "right") or not all(map(_is_plain, texts)):
        return None
    widest = max(map(len, texts), default=0)
    width = widest if column.max_width is None else min(widest, column.max_width)
    if any(len(text) > width and (column.no_wrap or " " in text) for text in texts):
        return None  # cut off, or wrapped at its words
    return _Laid(texts, width, column.justify == "right")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _lines(columns: list[_Laid], texts: tuple[str, ...], gap: str) -> Iterator[str]:
    """The lines of a row: of what is too long for its column, the rest is below."""
    parts = [_folded(text, column.width) for text, column in zip(texts, columns, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        yield gap.join(
            part.rjust(column.width) if column.right else part.ljust(column.width)
            for part, column in zip(line, columns, strict=True)
        )


def _folded(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return [text[start : start + width] for start in range(0, len(text), width)]
