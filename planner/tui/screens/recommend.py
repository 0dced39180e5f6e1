"""The recommend screen: every model worth running on this hardware, ranked."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec.structs import replace
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import DataTable, Input, Label, Static, Tab, Tabs
from textual.worker import get_current_worker

from hardware_db import Rig
from planner.errors import PlanError
from planner.recommendation.rank import Choice, Recommendation, recommend
from planner.settings import Settings
from planner.tui.background import in_background
from planner.tui.ranking import COLUMNS, Column, Filters, ordered
from planner.tui.screens.compare import CompareScreen
from planner.tui.screens.help import Help
from planner.tui.show import DIM, plain, shorten
from planner.tui.table import fill
from planner.tui.widgets.key_line import KeyLine
from planner.tui.widgets.no_rows import NoRows
from planner.workload import USE_CASES

_MOST: Final = 200
_EVERY: Final = 0.1  # seconds from one look at a ranking under way to the next
# Columns of the terminal, how many of the table's are shown from there on, and how many columns of
# the terminal those beside the name take. From the second on numbers have bands.
_WIDTHS: Final = ((0, 7, 52), (110, 8, 77), (150, 11, 112))
_MOST_COMPARED: Final = 3
# Name of a filter, what stands before it, what may be written.
_FILTERS: Final = (
    ("context", "context", "16k"),
    ("licence", "licence", "any, open, mit"),
    ("pace", "tok/s ≥", "15"),
)


class _Left(Exception):
    """Nobody waits for the ranking any more."""


class RecommendScreen(Screen[Settings | None]):
    """Gives back the settings of the row that was chosen, or None."""

    KEYS: ClassVar[Help] = {
        "Ranking": {
            "↑ ↓ pgup pgdn": "go to another model",
            "enter": "open it as a plan",
            "u  U": "rank for the next use case, or the one before",
            "/": "write into the filters: tab goes to the next, enter ranks, escape goes back",
            "tier": "models whose qualities can hardly be told apart are in one",
            "~": "before sizes that are estimated",
            "o  O": "order by the next column; the other way round",
            "space": "mark the row, or take its mark away",
            "c": "put two or three marked rows side by side; with one mark, that and this row",
            "escape": "stop ranking, and back to the plan",
        }
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "back", tooltip="Back to the plan"),
        Binding("enter", "choose", "open", tooltip="Open this model as a plan"),
        Binding("slash", "filter", "filter", tooltip="Filter the ranking", key_display="/"),
        Binding("u", "next(1)", "use case", tooltip="Rank for the next use case"),
        Binding("space", "mark", "mark", tooltip="Mark this row for a comparison"),
        Binding("c", "compare", "compare", tooltip="Compare the marked rows"),
        Binding("o", "sort", "order", tooltip="Order by the next column"),
        Binding("O", "reverse", "reversed", tooltip="Reverse the order"),
        Binding("U", "next(-1)", "use case before", tooltip="Rank for the use case before"),
    ]

    def __init__(self, settings: Settings, rig: Rig) -> None:
        super().__init__()
        self._settings, self._rig = settings, rig
        self._filters = Filters(settings.use_case)
        self._found: Recommendation | None = None
        self._rows: list[Choice] = []
        self._marked: list[str] = []
        self._sorted_by: int | None = None  # a column; None: as it is ranked
        self._backwards = False
        self._ranking = True
        self._progress = (0, 0)  # models that were looked at, and how many there are

    def compose(self) -> ComposeResult:
        """Title, use cases, filters, the table, and a line on the row."""
        yield Static(id="title")
        yield Tabs(*(Tab(name, id=name) for name in USE_CASES), active=self._filters.use_case)
        with Horizontal(id="filters"):
            for name, label, example in _FILTERS:
                yield Label(label)
                yield Input(placeholder=example, compact=True, id=f"filter-{name}")
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        yield table
        yield NoRows(id="no-rows", classes="card")
        yield Static(id="row")
        yield KeyLine()

    def on_mount(self) -> None:
        """The title; the first ranking comes with the first tab."""
        self.query_one(Tabs).can_focus = False
        self._table.focus()
        self.set_interval(_EVERY, self._show_progress)
        at_once = self._settings.concurrency
        load = "one request at a time" if at_once == 1 else f"{at_once:,} requests at a time"
        self.query_one("#title", Static).update(
            Content.assemble(
                (" vplan ", "bold reverse $primary"),
                (" Recommend", "bold"),
                f" for {plain(self._rig.spec)}, vLLM {self._settings.vllm}",
                (f"; {load}", DIM),
            )
        )

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    # -- ranking -------------------------------------------------------------------------------

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Rank for another use case."""
        self._filters = replace(self._filters, use_case=event.tab.id or self._filters.use_case)
        self._rank(self._filters)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Rank with what was written into the filters."""
        event.stop()
        written = {name: self.query_one(f"#filter-{name}", Input).value for name, _, _ in _FILTERS}
        self._filters = Filters(self._filters.use_case, **written)
        self._rank(self._filters)
        self._table.focus()

    @work(exclusive=True, group="rank")
    async def _rank(self, filters: Filters) -> None:
        self._ranking = True
        self._progress = (0, 0)
        self._show_progress()
        worker = get_current_worker()

        def told(done: int, models: int) -> None:
            if worker.is_cancelled:
                raise _Left
            self._progress = (done, models)

        try:
            asked = filters.requirements(self._settings.concurrency)
            release = self._settings.vllm
            found = await in_background(
                lambda: recommend(
                    self._rig, asked, vllm=release, limit=_MOST, everything=True, told=told
                )
            )
        except PlanError as error:
            self._show(None, str(error))
        else:
            miss = found.smallest_unfit
            smallest = f"; the smallest, {miss[0]}: {miss[1]}" if miss else ""
            self._show(found, f"▲ no known model does as asked{smallest}. / changes the filters")

    def _show_progress(self) -> None:
        """How far a ranking is."""
        if self._ranking:
            done, models = self._progress
            self._say(f"ranking: {done:,} of {models:,} models" if models else "ranking …")
            if not self._rows:
                self._show_none(self._progress)

    def _show_none(self, what: tuple[int, int] | Recommendation | str) -> None:
        """Show what stands in place of the rows."""
        self.set_class(True, "-no-rows")
        self.query_one(NoRows).show(what)

    def _show(self, found: Recommendation | None, why_none: str) -> None:
        """Show a ranking, or why there is none."""
        self._found = found
        self._marked = []
        self._ranking = False
        self._fill()
        self.set_class(not self._rows, "-no-rows")
        if not self._rows:
            self._say(why_none, wrong=found is None)
            self._show_none(found or why_none)

    def _fill(self) -> None:
        """The rows in their order, as wide as there is room."""
        table, width = self._table, self.size.width
        _, many, beside = [each for each in _WIDTHS if each[0] <= width][-1]
        shown, roomy = COLUMNS[:many], many > _WIDTHS[0][1]
        at = table.cursor_row
        column = COLUMNS[self._sorted_by] if self._sorted_by is not None else None
        choices = self._found.choices if self._found is not None else ()
        self._rows = ordered(choices, column, backwards=self._backwards)
        headings = {}
        for index, each in enumerate(shown):
            falls = each.largest_first != self._backwards
            arrow = "" if index != self._sorted_by else " ↓" if falls else " ↑"
            headings[each.name] = _cell(each, f"{each.name}{arrow}")
        rows, tier = [], 0
        for choice in self._rows:
            cells = [each.text(choice, roomy) for each in shown]
            mark = "● " if choice.model_id in self._marked else ""
            name = cells[1] if roomy else cells[1].rpartition("/")[2]
            cells[1] = mark + shorten(name, width - beside - len(mark))
            if column is None and choice.tier == tier:
                cells[0] = ""
            rows.append(list(map(_cell, shown, cells)))
            tier = choice.tier
        fill(table, headings, rows)
        table.move_cursor(row=at)

    def on_resize(self) -> None:
        """Draw for the new width."""
        if self._found is not None:
            self._fill()

    # -- rows ----------------------------------------------------------------------------------

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Say more of the row."""
        choice = self._here()
        if choice is not None:
            self._say_row(choice)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the row."""
        self.action_choose()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column; once more turns it round."""
        if self._sorted_by == event.column_index:
            self._backwards = not self._backwards
        self._sorted_by = event.column_index
        self._fill()

    def _here(self) -> Choice | None:
        at = self._table.cursor_row
        return self._rows[at] if 0 <= at < len(self._rows) and not self._ranking else None

    def action_choose(self) -> None:
        """Open the row as a plan, with the settings it was ranked with."""
        choice = self._here()
        if choice is not None:
            self.dismiss(self._settings_of(choice))

    def _settings_of(self, choice: Choice) -> Settings:
        return replace(
            self._settings,
            model=choice.model_id,
            config=choice.settled.config,
            use_case=self._filters.use_case,
            environ=(),
        )

    def action_mark(self) -> None:
        """Mark the row to be compared, or take the mark away."""
        choice = self._here()
        if choice is None:
            return
        if choice.model_id in self._marked:
            self._marked.remove(choice.model_id)
        elif len(self._marked) == _MOST_COMPARED:
            self.notify(f"{_MOST_COMPARED} at most")
        else:
            self._marked.append(choice.model_id)
        self._fill()

    def action_compare(self) -> None:
        """Put the marked rows side by side; with one mark, that and the row here."""
        here = self._here()
        wanted = dict.fromkeys(self._marked)
        if len(wanted) < 2 and here is not None:
            wanted[here.model_id] = None
        compared = [each for each in self._rows if each.model_id in wanted]
        if len(compared) < 2 or self._found is None:
            self.notify("space marks the rows to compare, two or three")
            return

        def chosen(choice: Choice | None) -> None:
            if choice is not None:
                self.dismiss(self._settings_of(choice))

        self.app.push_screen(CompareScreen(self._found, compared), chosen)

    # -- order and filters ---------------------------------------------------------------------

    def action_next(self, by: int) -> None:
        """Another use case."""
        names = list(USE_CASES)
        at = names.index(self._filters.use_case)
        self.query_one(Tabs).active = names[(at + by) % len(names)]

    def action_sort(self) -> None:
        """Sort by the next column; after the last as it is ranked."""
        at = -1 if self._sorted_by is None else self._sorted_by
        self._sorted_by = at + 1 if at + 1 < len(self._table.columns) else None
        self._backwards = False
        self._fill()

    def action_reverse(self) -> None:
        """The other way round."""
        self._backwards = not self._backwards
        self._fill()

    def action_filter(self) -> None:
        """Write into the filters; tab goes to the next, enter ranks."""
        self.query_one(f"#filter-{_FILTERS[0][0]}").focus()
        self._say("tab: the next filter; enter: rank; escape: back to the table")

    def action_close(self) -> None:
        """From the filters to the table; from there stop ranking and go back."""
        if isinstance(self.focused, Input):
            self._table.focus()
            return
        self.workers.cancel_node(self)
        self.dismiss(None)

    # -- the line below ------------------------------------------------------------------------

    def _say(self, text: str, *, wrong: bool = False) -> None:
        line = self.query_one("#row", Static)
        sign, style = ("✘ ", "$text-error") if wrong else ("", "")
        line.update(Content.assemble((f"{sign}{plain(text)}", style)))

    def _say_row(self, choice: Choice) -> None:
        memory = choice.settled.memory
        length = memory.config.max_model_len
        changed = "; ".join(
            f"{name.replace('_', ' ')}: {why}" for name, why in choice.settled.reasons.items()
        )
        licence = choice.card.license or "licence not known"
        place = f"{self._table.cursor_row + 1} of {len(self._rows)}  "
        self.query_one("#row", Static).update(
            Content.assemble(
                (place, DIM),
                (plain(choice.model_id), "bold"),
                f"  {choice.released}, {plain(licence)}; {memory.requests_at(length).value:.1f} "
                f"requests of {length:,} tokens at once; quality in {choice.quality.mode} "
                "mode ± standard error\n",
                (plain(changed), DIM),
            )
        )


def _cell(column: Column, text: str) -> Text:
    style = "bold" if column.name == "model" else ""
    return Text(plain(text), style=style, justify="right" if column.is_number else "left")
