"""Parts of what several widgets show: styled text in columns, and words for an answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import wrap
from typing import Final

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from planner.cli.console import printable
from planner.command.secrets import redacted
from planner.memory.verdict import Answer

# Sign, words and style of an answer: none of the three is needed to read the others.
ANSWERS: Final = {
    Answer.YES: ("✔", "starts", "$text-success"),
    Answer.RISKY: ("▲", "may not start", "$text-warning"),
    Answer.NO: ("✘", "does not start", "$text-error"),
}
DIM: Final = "$foreground 68%"  # 4.5:1 and more on every background of both themes
_NARROWEST: Final = 12


def plain(text: str) -> str:
    """Text from elsewhere, with nothing a terminal would act on, nor a key that it repeats."""
    return printable(redacted(" ".join(text.split("\n"))))


def columns(
    rows: Sequence[Sequence[tuple[str, str]]],
    gap: int = 2,
    width: int | None = None,
    right: Collection[int] = (),
) -> Content:
    """Rows of (text, style) with aligned columns, those of `right` at their right.

    The last column is as long as it is, or goes on below itself where `width` ends.
    """
    widths: list[int] = []
    for row in rows:
        for index, (text, _) in enumerate(row):
            if index == len(row) - 1 and index not in right:
                continue  # as long as it is
            widths += [0] * (index + 1 - len(widths))
            widths[index] = max(widths[index], cell_len(text))
    room = None if width is None else width - sum(widths) - gap * len(widths)
    lines = []
    for row in rows:
        placed = [
            (" " * (widths[index] - cell_len(text)) + text if index in right else text, style)
            for index, (text, style) in enumerate(row)
        ]
        cells = [
            (set_cell_size(text, widths[index] + gap), style)
            for index, (text, style) in enumerate(placed[:-1])
        ]
        text, style = placed[-1]
        parts = wrap(text, room) if room is not None and room >= _NARROWEST else [text]
        lines.append(Content.assemble(*cells, (parts[0] if parts else "", style)))
        indent = " " * sum(cell_len(cell) for cell, _ in cells)
        lines += [Content.assemble((indent + part, style)) for part in parts[1:]]
    return Content("\n").join(lines)


def shorten(text: str, width: int) -> str:
    """The text, with its middle left out where it is too wide."""
    if len(text) <= width or width < 8:
        return text[: max(width, 0)]
    half = (width - 1) // 2
    return f"{text[: width - 1 - half]}…{text[-half:]}"
