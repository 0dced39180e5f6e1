"""The validate screen: run the plan on this machine for a moment, and see whether it was right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from time import monotonic
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import DataTable, RichLog, Static

from planner.findings import Severity
from planner.launch.history import PastRun, past_runs
from planner.launch.log import presentable
from planner.launch.preflight import Preflight, gpu_of_launch, prepare
from planner.launch.progress import Cancelled, Logged, Reached
from planner.report.validation import ValidationReport
from planner.tui.background import in_background
from planner.tui.prospect import Prospect, prospect
from planner.tui.screens.help import Help
from planner.tui.show import ANSWERS, plain
from planner.tui.table import fill
from planner.tui.validation_run import ValidationRun
from planner.tui.widgets.course import CourseCard
from planner.tui.widgets.key_line import KeyLine
from planner.tui.widgets.knob_list import WRONG_INPUT
from planner.tui.widgets.launch_cards import LaunchCards
from planner.tui.widgets.verdict import paint
from planner.tui.widgets.verified import SIGNS, VerifiedCard, summary

_EVERY: Final = 0.2  # seconds from one look at a running launch to the next
_MOST_PAST: Final = 200
_PAST_COLUMNS: Final = (
    "when (UTC)",
    "outcome",
    "model",
    "vLLM",
    "hardware",
    "ready after",
    "inside",
    "outside",
    "kept in",
)
_ALWAYS: Final = 5  # of them; the others where there is room
_ROOMY: Final = 160
_MOST_LINES: Final = 5000
_STYLES: Final = {each.value: style for each, (_, _, style) in ANSWERS.items()}
_LAST_SECONDS: Final = 25.0  # for a server to end when the program does


class State(Enum):
    """What the screen is doing; its name is a class of the screen."""

    PREPARING = "preparing"
    READY = "ready"
    REFUSED = "refused"
    RUNNING = "running"
    DONE = "done"


class ValidateScreen(Screen[None]):
    """Runs in a thread; Escape ends it at any time, and nothing of the server is left."""

    KEYS: ClassVar[Help] = {
        "Validation": {
            "s": "start it, or start it once more",
            "escape": "stop what runs, nothing of the server is left; else back to the plan",
            "l": "show or hide the server's log",
            "↑ ↓ enter": "show a past validation",
            "o": "order them by the next column; a click on a heading orders by it",
        }
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start", tooltip="Start the validation"),
        Binding("escape", "stop", "stop", tooltip="Stop what runs"),
        Binding("escape", "leave", "back", tooltip="Back to the plan"),
        Binding("l", "log", "log", tooltip="Show or hide the log"),
        Binding("o", "sort", "order", show=False),
    ]

    def __init__(self, command: str, model: str, gpu: str) -> None:
        super().__init__()
        self._command, self._model, self._gpu = command, model, gpu
        self._state = State.PREPARING
        self._preflight: Preflight | None = None
        self._run: ValidationRun | None = None
        self._began = 0.0
        self._reached = ""
        self._past: list[PastRun] = []
        self._sorted_by = 0  # a column of them
        self._backwards = True  # the latest first

    def compose(self) -> ComposeResult:
        """Title, state, what is run, how far it is, its log, the outcome, what was before."""
        yield Static(id="title")
        yield Static(id="verdict")
        with Vertical(id="validation"):
            yield LaunchCards(id="ready")
            yield CourseCard(id="course", classes="card")
            yield VerifiedCard(id="verified", classes="card")
            yield RichLog(id="log", classes="card", max_lines=_MOST_LINES, wrap=True)
            table: DataTable[Text] = DataTable(id="past", classes="card", cursor_type="row")
            yield table
        yield KeyLine()

    def on_mount(self) -> None:
        """Look for vLLM, and for earlier runs."""
        self.query_one("#log").border_title = "Log of the server"
        past = self.query_one("#past")
        past.border_title = "Past validations: enter shows one"
        self.query_one("#title", Static).update(
            Content.assemble(
                (" vplan ", "bold reverse $primary"),
                (" Validate", "bold"),
                f" {plain(self._model)} on this machine",
            )
        )
        self._turn(State.PREPARING)
        self._say("…", "looking for vLLM", "")
        self.set_interval(_EVERY, self._look)
        self._prepare()
        self._look_back()

    # -- before --------------------------------------------------------------------------------

    @work(group="prepare")
    async def _prepare(self) -> None:
        def examine() -> tuple[Preflight, Prospect]:
            preflight = prepare([self._command], gpu_of_launch(self._gpu))
            return preflight, prospect(preflight)

        cards = self.query_one(LaunchCards)
        try:
            preflight, expected = await in_background(examine)
        except WRONG_INPUT as error:
            cards.show_command(self._command)
            self._turn(State.REFUSED)
            self._say("✘", "cannot run here", str(error), "no")
            return
        self._preflight = preflight
        cards.show(preflight, expected)
        if preflight.forbidden:
            self._turn(State.REFUSED)
            found = (*preflight.check.findings, *preflight.findings)
            errors = [each.text for each in found if each.severity is Severity.ERROR]
            why = errors[0] if errors else "the plan says that it does not start"
            self._say("✘", "would not start here", why, "no")
        else:
            self._turn(State.READY)
            self._say("▸", "ready", "s starts it")

    # -- while it runs -------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """What can be done in this state."""
        match action:
            case "start":
                return self._state in (State.READY, State.DONE)
            case "stop":
                return self.running
            case "leave":
                return not self.running
            case "log":  # elsewhere it is in sight
                return self._state is State.DONE and self.has_class("-narrow")
        return True

    def action_start(self) -> None:
        """Start the launch, or start it once more."""
        preflight = self._preflight
        assert preflight is not None
        assert preflight.check.memory is not None
        self._run = ValidationRun(preflight)
        self._began, self._reached = monotonic(), "starting"
        self.query_one(RichLog).clear()
        self.query_one(CourseCard).begin(preflight.check.memory)
        self._turn(State.RUNNING)
        self._launch(self._run)

    @work(group="run")
    async def _launch(self, run: ValidationRun) -> None:
        try:
            report = await run.report()
        except Cancelled:
            self._finish("■", "cancelled", "nothing of the server is left; s starts it again")
        except WRONG_INPUT as error:
            self._finish("✘", "failed", str(error), "no")
        else:
            self._show_report(report)
            self._look_back()

    def _look(self) -> None:
        """Show what a running launch told meanwhile."""
        run = self._run
        if run is None or self._state is not State.RUNNING:
            return
        log, course = self.query_one(RichLog), self.query_one(CourseCard)
        told = run.events()
        for event in told:
            if isinstance(event, Logged):
                log.write(Text(plain(presentable(event.line))), expand=True)
            else:
                course.tell(event)
            if isinstance(event, Reached):
                self._reached = event.milestone.label
        if told:  # the card above may have grown, and the log have less room
            self.call_after_refresh(log.scroll_end, animate=False)
        seconds = monotonic() - self._began
        if run.is_ending:
            self._say("■", "ending the server", f"{seconds:.0f} s", "risky")
        else:
            self._say("●", f"running {seconds:.0f} s", f"{self._reached}; escape ends it")

    def _finish(self, sign: str, words: str, text: str, answer: str | None = None) -> None:
        self._look()
        self._run = None
        self._turn(State.DONE)
        self.call_after_refresh(self.query_one(RichLog).scroll_end, animate=False)
        self._say(sign, words, text, answer)

    def _show_report(self, report: ValidationReport) -> None:
        sign, words, answer, _ = SIGNS[report.verdict]
        self._finish(sign, words, summary(report), answer)
        self._show_outcome(report)

    async def end(self) -> None:
        """End what runs, and wait until it has ended."""
        run = self._run
        if run is not None:
            run.cancel()
            await in_background(lambda: run.wait(_LAST_SECONDS))

    def action_stop(self) -> None:
        """End what runs."""
        if self._run is not None and not self._run.is_ending:
            self._run.cancel()
            self._look()

    def action_leave(self) -> None:
        """Back to the plan."""
        self.dismiss(None)

    @property
    def running(self) -> bool:
        """Whether a server of ours is there."""
        return self._run is not None

    # -- past runs -----------------------------------------------------------------------------

    @work(group="past", exclusive=True)
    async def _look_back(self) -> None:
        self._past = await in_background(lambda: list(islice(past_runs(), _MOST_PAST)))
        self._fill()
        self.set_class(bool(self._past), "-with-past")
        if self._past and self._state is not State.RUNNING:
            self.query_one("#past").focus()

    @property
    def _many(self) -> int:
        """How many columns of past runs there is room for."""
        return len(_PAST_COLUMNS) if self.size.width >= _ROOMY else _ALWAYS

    def on_resize(self) -> None:
        """As many columns as there is room for."""
        if self._past:
            self._fill()

    def _fill(self) -> None:
        """Past runs in their order."""
        column = self._sorted_by
        self._past.sort(key=lambda run: _keys(run)[column], reverse=self._backwards)
        table: DataTable[Text] = self.query_one("#past", DataTable)
        headings = {name: Text(name) for name in _PAST_COLUMNS[: self._many]}
        fill(table, headings, _cells(self._past))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column; once more turns it round."""
        again = self._sorted_by == event.column_index
        self._backwards = again and not self._backwards
        self._sorted_by = event.column_index
        self._fill()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._sorted_by = (self._sorted_by + 1) % self._many
        self._backwards = self._sorted_by == 0
        self._fill()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show a past run in place of this one's outcome."""
        if self._state is not State.RUNNING and event.cursor_row < len(self._past):
            report = self._past[event.cursor_row].report
            self._show_outcome(report)
            sign, words, answer, _ = SIGNS[report.verdict]
            self._say(sign, f"{words}, on {report.began[:10]}", summary(report), answer)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show a past run below the launch, where there is room for both."""
        idle = self._state in (State.READY, State.REFUSED)
        if idle and self.has_class("-wide") and 0 <= event.cursor_row < len(self._past):
            self._show_outcome(self._past[event.cursor_row].report)

    def _show_outcome(self, report: ValidationReport) -> None:
        self.query_one(VerifiedCard).show(report)
        self.set_class(True, "-with-outcome")

    # -- looks ---------------------------------------------------------------------------------

    def action_log(self) -> None:
        """Show the log, or hide it, where there is no room for it beside the outcome."""
        self.toggle_class("-with-log")

    def _turn(self, state: State) -> None:
        """Go to a state; which parts it shows is in the stylesheet."""
        self._state = state
        for each in State:
            self.set_class(each is state, f"-{each.value}")
        self.set_class(bool(self._past), "-with-past")
        self.set_class(False, "-with-outcome", "-with-log")
        self.query_one(KeyLine).rewrite()

    def _say(self, sign: str, words: str, text: str, answer: str | None = None) -> None:
        line = self.query_one("#verdict", Static)
        paint(line, answer)
        style = _STYLES.get(answer or "", "")
        line.update(Content.assemble((f"{sign} {words}", f"bold {style}"), f"  {plain(text)}"))


def _keys(run: PastRun) -> tuple[Any, ...]:
    """What past runs are sorted by, for each column."""
    report = run.report
    model = report.model.id.rstrip("/").rpartition("/")[2].lower()
    release = [int(number) for number in re.findall(r"\d+", report.vllm)]
    outside = [term.name for term in report.terms if not term.inside]
    ready = report.ready_seconds or 0.0
    inside = len(report.terms) - len(outside)
    return (
        report.began, report.verdict, model, release, report.rig.spec, ready, inside, outside,
        report.folder,
    )  # fmt: skip


def _cells(past: Iterable[PastRun]) -> list[list[Text]]:
    rows = []
    for run in past:
        report = run.report
        sign, words, _, _ = SIGNS[report.verdict]
        cells = (
            report.began[:16].replace("T", " "),
            f"{sign} {words}",
            report.model.id.rstrip("/").rpartition("/")[2],
            report.vllm,
            report.rig.spec,
            "-" if report.ready_seconds is None else f"{report.ready_seconds:.0f} s",
            f"{sum(term.inside for term in report.terms)} of {len(report.terms)}",
            ", ".join(term.name for term in report.terms if not term.inside) or "-",
            report.folder,
        )
        rows.append([Text(plain(cell)) for cell in cells])
    return rows
