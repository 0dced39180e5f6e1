"""Tables are right the first time that they are drawn."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import DataTable
from tui_driver import Driver, drive

from planner.tui.table import fill


def test_a_column_is_as_wide_as_what_is_in_it_at_once() -> None:
    """Two cells of padding beside the widest of each: 4 of "many", 7 of "a model"."""

    async def script(driver: Driver) -> None:
        table: DataTable[Text] = DataTable()
        await driver.app.screen.mount(table)
        headings = {"model": Text("model"), "number": Text("many")}
        rows = [[Text("a model"), Text("1"), Text("left out")], [Text("one"), Text("22")]]
        for _ in range(2):  # it may be filled again
            fill(table, headings, rows)
            widths = [column.get_render_width(table) for column in table.ordered_columns]
            assert widths == [7 + 2, 4 + 2]
            assert table.row_count == 2

    drive(script)
