"""The recommend screen: every model worth running on this hardware, ranked."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import DataTable, Static, Tab, Tabs

from hardware_db import Rig
from planner.cli.format import gib, rate_band, seconds, short_count
from planner.errors import PlanError
from planner.recommendation.rank import Choice, Recommendation, recommend
from planner.recommendation.requirements import Requirements
from planner.settings import Settings
from planner.tui.background import in_background
from planner.tui.show import DIM, plain, shorten
from planner.tui.widgets.key_line import KeyLine
from planner.workload import USE_CASES, use_case_workload

_MOST: Final = 60
_COLUMNS: Final = ("tier", "model", "format", "quality", "GiB", "KV tokens", "tok/s", "answer")
_NARROW_COLUMNS: Final = _COLUMNS[:-1]
_ROOMY: Final = 110  # columns from which on names are whole and numbers have bands
_NAME: Final = 28
_BESIDE_NAME: Final = 74  # columns that the others take then


class RecommendScreen(Screen[Settings | None]):
    """Gives back the settings of the row that was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,r", "close", "back"),
        Binding("enter", "choose", "open as a plan", priority=True),
        Binding("u,right", "next(1)", "use case", priority=True),
        Binding("left", "next(-1)", "use case before", show=False, priority=True),
    ]

    def __init__(self, settings: Settings, rig: Rig) -> None:
        super().__init__()
        self._settings, self._rig = settings, rig
        self._use_case = settings.use_case
        self._choices: tuple[Choice, ...] = ()

    def compose(self) -> ComposeResult:
        """Title, use cases, the table, and a line on the row."""
        yield Static(id="title")
        yield Tabs(*(Tab(name, id=name) for name in USE_CASES), active=self._use_case)
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        yield table
        yield Static(id="row")
        yield KeyLine()

    def on_mount(self) -> None:
        """Columns, and the first ranking."""
        self.query_one(Tabs).can_focus = False
        self._table.focus()
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

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Rank for another use case."""
        self._use_case = event.tab.id or self._use_case
        self._table.loading = True
        self._say("ranking …")
        self._rank(self._use_case)

    @work(exclusive=True, group="rank")
    async def _rank(self, use_case: str) -> None:
        try:
            workload = use_case_workload(use_case, self._settings.concurrency)
            requirements = Requirements(workload, use_case)
            found = await in_background(
                lambda: recommend(self._rig, requirements, vllm=self._settings.vllm, limit=_MOST)
            )
        except PlanError as error:
            self._fail(str(error))
        else:
            self._show(found)

    def _fail(self, why: str) -> None:
        self._choices = ()
        self._table.loading = False
        self._fill()
        self._say(why)

    def _show(self, found: Recommendation) -> None:
        self._choices = found.choices
        table = self._table
        table.loading = False
        self._fill()
        if not found.choices:
            miss = found.smallest_unfit
            smallest = f"; the smallest, {miss[0]}: {miss[1]}" if miss else ""
            self._say(f"no known model fits{smallest}")
        table.focus()

    def _fill(self) -> None:
        """The rows, as wide as there is room."""
        table, roomy = self._table, self.size.width >= _ROOMY
        row = table.cursor_row
        table.clear(columns=True)
        for name in _COLUMNS if roomy else _NARROW_COLUMNS:
            table.add_column(name, key=name)
        tier = 0
        for choice in self._choices:
            room = self.size.width - _BESIDE_NAME if roomy else None
            cells = _cells(choice, room, shows_tier=choice.tier != tier)
            table.add_row(*cells[: len(table.columns)])
            tier = choice.tier
        table.move_cursor(row=row)

    def on_resize(self) -> None:
        """Draw for the new width."""
        if self._choices:
            self._fill()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Say more of the row."""
        if 0 <= event.cursor_row < len(self._choices):
            self._say_row(self._choices[event.cursor_row])

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the row."""
        self.action_choose()

    def action_choose(self) -> None:
        """Open the row as a plan, with the settings it was ranked with."""
        row = self._table.cursor_row
        if self._table.loading or not 0 <= row < len(self._choices):
            return
        choice = self._choices[row]
        self.dismiss(
            replace(
                self._settings,
                model=choice.model_id,
                config=choice.settled.config,
                use_case=self._use_case,
                environ=(),
            )
        )

    def action_next(self, by: int) -> None:
        """Another use case."""
        names = list(USE_CASES)
        self.query_one(Tabs).active = names[(names.index(self._use_case) + by) % len(names)]

    def action_close(self) -> None:
        """Stop ranking and go back."""
        self.workers.cancel_node(self)
        self.dismiss(None)

    def _say(self, text: str) -> None:
        self.query_one("#row", Static).update(Content(plain(text)))

    def _say_row(self, choice: Choice) -> None:
        memory = choice.settled.memory
        held = memory.requests_at(choice.settled.memory.config.max_model_len).value
        length = memory.config.max_model_len
        changed = "; ".join(
            f"{name.replace('_', ' ')}: {why}" for name, why in choice.settled.reasons.items()
        )
        self.query_one("#row", Static).update(
            Content.assemble(
                (plain(choice.model_id), "bold"),
                f"  {choice.released}; {held:.1f} requests of {length:,} tokens at once; "
                f"quality of its {choice.quality.mode} mode ± standard error\n",
                (plain(changed), DIM),
            )
        )


def _cells(choice: Choice, room: int | None, *, shows_tier: bool) -> list[Text]:
    """The cells of a row; `room` is there for the name where there is enough, else None."""
    roomy = room is not None
    memory, speed = choice.settled.memory, choice.settled.speed
    about = "" if choice.card.exact else "~"
    answer, quality = choice.seconds_per_answer, choice.quality
    name = choice.model_id.rpartition("/")[2] if room is None else choice.model_id
    name = shorten(name, _NAME if room is None else room)
    rate = "-"
    if speed is not None:
        rate = rate_band(speed.per_user) if roomy else f"{speed.per_user.value:.0f}"
    return [
        Text(f"{choice.tier:>4}" if shows_tier else ""),
        Text(plain(name), style="bold"),
        Text(choice.card.format_kind),
        Text(f"{quality.score:.1f}" + (f" ± {quality.error:.1f}" if roomy else "")),
        Text(f"{about}{gib(memory.tightest.weights.value)}"),
        Text(f"{about}{short_count(memory.kv_tokens.value)}"),
        Text(rate),
        Text(seconds(answer.value) if answer is not None else "-"),
    ]
