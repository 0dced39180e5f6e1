"""A table whose columns are as wide as what is in them from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text
from textual.widgets import DataTable


def fill(
    table: DataTable[Text], headings: Mapping[str, Text], rows: Sequence[Sequence[Text]]
) -> None:
    """Show these rows below these headings, which are by their column's key, and nothing else.

    What a row has beyond them is left out.

    Textual would measure the columns once it is idle, and show what it drew before that again.
    """
    table.clear(columns=True)
    for index, (key, heading) in enumerate(headings.items()):
        width = max([heading.cell_len, *(row[index].cell_len for row in rows)])
        table.add_column(heading, width=width, key=key)
    for row in rows:
        table.add_row(*row[: len(headings)])
