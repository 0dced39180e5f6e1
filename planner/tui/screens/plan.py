"""The plan screen: knobs on the left, what they do on the right."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize, ScreenResume
from textual.screen import Screen
from textual.timer import Timer

from hardware_db import HardwareError
from planner.diagnosis.remedies import Remedy
from planner.errors import PlanError
from planner.findings import Finding
from planner.memory.verdict import Answer
from planner.settings import Settings
from planner.tui.background import SPARE_TIME, in_background
from planner.tui.compositor import LineCompositor
from planner.tui.history import History
from planner.tui.library import Library
from planner.tui.outcome import Outcome, judge, mend
from planner.tui.remedy import remedied, speculating
from planner.tui.screens.help import Help
from planner.tui.session import keep
from planner.tui.show import DIM, plain
from planner.tui.widgets.command import CommandPanel
from planner.tui.widgets.key_line import KeyLine
from planner.tui.widgets.knob_list import WRONG_INPUT, KnobList
from planner.tui.widgets.nothing import Nothing
from planner.tui.widgets.results import Body, Results
from planner.tui.widgets.speculation_panel import SpeculationPanel
from planner.tui.widgets.steady import Steady
from planner.tui.widgets.verdict import VerdictPanel

_LONG: Final = 0.3  # seconds that a model may take to open before what was there is put away
_SETTLES: Final = 0.1  # seconds without a change before what takes longer than a plan is asked for


class PlanScreen(Screen[None]):
    """Every change is planned at once; the Hub, remedies and sweeps answer from workers."""

    KEYS: ClassVar[Help] = {
        "Knobs": {
            "↑ ↓  tab": "go to another knob",
            "← →  - +": "turn it one step",
            "enter": "write a value, or open a list; a digit begins to write",
            "g  m": "pick the GPU, the model",
            "u  U": "undo, redo (also ctrl+z, ctrl+y)",
            "escape": "stop writing, or stop waiting for a model that is being opened",
        },
        "Plan": {
            "f": "apply the first change that makes it start",
            "d": "use the drafts that pay most for sure (tab Speculation)",
            "c  e  ctrl+e": "copy the command, show it in the next format, save it",
            "v  w": "the next tab; why: findings, and every term with its source",
            "pgup pgdn": "scroll",
            "r": "recommend: every model worth running on this hardware",
            "x": "validate: run it here for a moment, and see whether the plan was right",
            "p": "write or paste a command",
        },
        "Files": {
            "ctrl+s": "save the plan as YAML",
            "ctrl+o": "open a plan, or a log of vLLM as a diagnosis",
        },
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "pick('gpu')", "GPU", tooltip="Pick the GPU"),
        Binding("m", "pick('model')", "model", tooltip="Pick the model"),
        Binding("f", "fix", "fix", tooltip="Fix: apply the first change that makes it start"),
        Binding("c", "copy", "copy", tooltip="Copy the command"),
        Binding(
            "r", "recommend", "rank", tooltip="Rank every model worth running on this hardware"
        ),
        Binding("x", "validate", "validate", tooltip="Validate: run the plan on this machine"),
        Binding("ctrl+s", "app.save", "save", tooltip="Save the plan"),
        Binding("v", "next_tab", "view", tooltip="Show the next tab"),
        Binding("u,ctrl+z", "undo", "undo", tooltip="Undo"),
        Binding("p", "app.paste", "paste", tooltip="Paste a command"),
        Binding("w", "tab('why')", "why", tooltip="Why: findings and terms of the budget"),
        Binding("d", "draft", "drafts", tooltip="Use the drafts that pay most for sure"),
        Binding("e", "format", "format", tooltip="Show the command in the next format"),
        Binding("ctrl+o", "app.load", "open", tooltip="Open a plan or a log"),
        Binding("ctrl+e", "app.export", "save the command", tooltip="Save the command"),
        Binding("U,ctrl+y", "redo", "redo", tooltip="Redo"),
        Binding("pagedown", "scroll_by(1)", "scroll", show=False),
        Binding("pageup", "scroll_by(-1)", "scroll back", show=False),
        Binding("escape", "stop", "stop", show=False),
    ]

    def __init__(self, settings: Settings, library: Library, path: Path | None = None) -> None:
        super().__init__()
        self._compositor = LineCompositor()
        self.history = History(settings)
        self.library = library
        self.path = path
        self.outcome: Outcome | None = None
        self.remedies: tuple[Remedy, ...] | None = None  # None: not yet looked for
        self._opened: Settings | None = None  # the last settings that could be planned
        self._settling: Timer | None = None
        self._is_drawn = False
        self._waits: Timer | None = None  # until what was planned before goes out of sight

    def compose(self) -> ComposeResult:
        """Title, verdict, knobs, results, a line of help, each with its looks from the first."""
        self.add_class(self._breakpoint(self.app.size.width), update=False)
        yield Steady(id="title")
        yield VerdictPanel(id="verdict")
        with Body(id="body"):
            yield KnobList(self.settings, id="knobs")
            yield Results(id="results")
        yield Steady(id="hint")
        yield KeyLine()

    def on_mount(self) -> None:
        """Plan what there is."""
        self.query_one("#knob-gpu").focus()
        self.replan()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """What was mounted just now has its looks."""
        event.refresh_styles = bool(self.outer_size)

    def on_resize(self, event: Resize) -> None:
        """A size that it has, of which a layout tells as well, is no reason for another layout."""
        suits = self.has_class(self._breakpoint(event.size.width))
        if suits and event.size == self.outer_size:
            event.prevent_default()

    def _breakpoint(self, width: int) -> str:
        """The class of a screen of so many columns."""
        breakpoints = self.app.HORIZONTAL_BREAKPOINTS or []
        return max((least, name) for least, name in breakpoints if width >= least)[1]

    @property
    def settings(self) -> Settings:
        """What the knobs hold."""
        return self.history.now

    # -- planning ------------------------------------------------------------------------------

    def change(self, settings: Settings) -> None:
        """Take new settings, as a step that can be undone."""
        if self.history.change(settings):
            self.replan()

    def open(
        self, settings: Settings, path: Path | None = None, findings: tuple[Finding, ...] = ()
    ) -> None:
        """Take settings from elsewhere, with what was found in the command that they are from."""
        if path is not None:
            self.path = path
        self.query_one(Results).show_pasted(findings)
        if self.history.change(settings):
            self.replan()
        elif self.outcome is not None:
            self._show(self.outcome)

    def replan(self) -> None:
        """Plan the settings there are: at once if everything is there, else when it is."""
        settings = self.settings
        self.remedies = None
        self.workers.cancel_group(self, "open")
        self.workers.cancel_group(self, "slow")
        self._end_waiting()
        try:
            inputs = self.library.ready(settings)
        except WRONG_INPUT as error:
            self._show_problem(str(error))
            return
        if inputs is not None:
            self._show(judge(settings, inputs))
            return
        self.outcome = None
        self.show_settings()
        self.query_one(VerdictPanel).show_opening(settings.model)
        self._waits = self.set_timer(_LONG, self._show_opening)
        self._open(settings)

    @work(exclusive=True, group="open")
    async def _open(self, settings: Settings) -> None:
        """Open what the settings name; may ask the Hub."""
        try:
            inputs = await in_background(lambda: self.library.open(settings))
        except WRONG_INPUT as error:
            self._show_problem(str(error))
        else:
            self._show(judge(settings, inputs))

    def _show_opening(self) -> None:
        """Put what was planned before out of sight: it is not of this model."""
        if self.outcome is None:
            self.query_one(Nothing).show(self.settings.model)
            self.query_one(KnobList).show_command(False)
            self.query_one(Results).show_nothing()

    def _show(self, outcome: Outcome) -> None:
        self._end_waiting()
        self.outcome, self._opened = outcome, outcome.settings
        self.show_settings()
        results, is_planned = self.query_one(Results), outcome.memory is not None
        self.query_one(KnobList).show_command(is_planned)
        self.query_one(VerdictPanel).show(outcome)
        if is_planned:
            results.show_planned()
        else:
            results.show_refused()
        results.show(outcome)
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(_SETTLES, self._ask_slow, pause=not self._is_drawn)

    def _end_waiting(self) -> None:
        if self._waits is not None:
            self._waits.stop()
            self._waits = None

    def _show_problem(self, problem: str) -> None:
        self._end_waiting()
        self.query_one(Nothing).show()
        self.outcome = None
        self.show_settings()
        self.query_one(KnobList).show_command(False)
        self.query_one(Results).show_nothing()
        self.query_one(VerdictPanel).show_problem(problem)

    def show_settings(self) -> None:
        """Show what the knobs hold, and the title."""
        self.query_one(KnobList).show(self.settings, self.outcome)
        settings, outcome = self.settings, self.outcome
        rig = outcome.inputs.rig.describe() if outcome is not None else settings.gpu
        file = f"  {self.path.name}" if self.path is not None else ""
        self.query_one("#title", Steady).update(
            Content.assemble(
                (" vplan ", "bold reverse $primary"),
                (f" {plain(settings.model)}", "bold"),
                (f" on {plain(rig)}, vLLM {settings.vllm}", ""),
                (plain(file), DIM),
            )
        )

    # -- what takes longer than a plan ---------------------------------------------------------

    def drawn(self) -> None:
        """There is a first picture, which nothing that takes longer may have kept waiting."""
        self._is_drawn = True
        if self._settling is not None:
            self._settling.resume()

    def _ask_slow(self) -> None:
        if self.outcome is not None:
            self._look_further(self.outcome)

    def on_results_tab_shown(self) -> None:
        """Ask for what the tab shows."""
        self._ask_slow()

    @work(exclusive=True, group="slow")
    async def _look_further(self, outcome: Outcome) -> None:
        """Keep the session, look for remedies, answer the panels that take longer.

        The screen may be taken apart while an answer is waited for.
        """
        await SPARE_TIME.answer(lambda: keep(outcome.settings))
        verdict, results = self.query_one(VerdictPanel), self.query_one(Results)
        if self.remedies is None:
            found = self.remedies = await SPARE_TIME.answer(lambda: mend(outcome))
            if outcome.can_be_mended and verdict.is_attached:
                verdict.show_remedy(outcome, found[0].change if found else None)
        for study in results.studies(outcome):
            why_none, answer = "", None
            try:
                answer = await SPARE_TIME.answer(partial(study.ask, outcome))
            except PlanError as error:
                why_none = str(error)
            if study.is_attached:
                study.tell(outcome, answer, why_none)
        results.answered()

    # -- knobs ---------------------------------------------------------------------------------

    def on_knob_list_changed(self, event: KnobList.Changed) -> None:
        """Plan what a knob was turned to."""
        self.change(event.settings)

    def on_knob_list_said(self, event: KnobList.Said) -> None:
        """Show the line."""
        self.hint(event.text, wrong=event.wrong)

    def action_pick(self, key: str) -> None:
        """Open the list of a knob by its name."""
        self.query_one(KnobList).pick(key)

    def hint(self, text: str, *, wrong: bool = False) -> None:
        """Show a line of help, or what is wrong."""
        line = self.query_one("#hint", Steady)
        line.update(Content(f"{'✘ ' if wrong else ''}{plain(text)}"))
        line.set_class(wrong, "-wrong")

    # -- keys ----------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """One change back."""
        if self.history.undo():
            self.replan()
        else:
            self.notify("Nothing to undo")

    def action_redo(self) -> None:
        """One change forward."""
        if self.history.redo():
            self.replan()
        else:
            self.notify("Nothing to redo")

    def action_stop(self) -> None:
        """Stop opening a model: back to what there was."""
        if self.outcome is None and self._opened is not None:
            self.workers.cancel_group(self, "open")
            self.change(self._opened)

    def action_fix(self) -> None:
        """Apply the first remedy."""
        outcome = self.outcome
        if outcome is None or not outcome.can_be_mended:
            self.notify("Nothing to mend" if outcome else "Nothing is planned")
            return
        if self.remedies is None:
            self.remedies = mend(outcome)
        if not self.remedies:
            self.notify("Nothing was found that would start on this hardware")
            return
        self.notify(plain(self.remedies[0].change), title="Applied")
        self.change(remedied(self.settings, self.remedies[0]))

    def action_draft(self) -> None:
        """Use the speculative method that gains most for sure."""
        choice = self.query_one(SpeculationPanel).choice
        if choice is None or choice.chosen is None:
            self.notify("No drafts that pay are known for this: see the tab Speculation")
            return
        self.notify(plain(choice.chosen.name), title="Speculation")
        self.change(speculating(self.settings, choice.chosen))

    def action_copy(self) -> None:
        """Copy the command, in the format that is shown."""
        text = self.query_one(CommandPanel).text
        if self.outcome is None or text is None:  # panels keep what was there
            self.notify("There is no command to copy", severity="warning")
            return
        self.app.copy_to_clipboard(text)
        if self.outcome.answer is Answer.NO:
            self.notify("Copied; as it is, vLLM would refuse it", severity="warning")
        else:
            self.notify("Copied")

    def action_format(self) -> None:
        """Show the command in the next format."""
        self.query_one(CommandPanel).next_format()
        self.action_tab("command")

    def action_next_tab(self) -> None:
        """Show the next tab."""
        self.query_one(Results).next_tab()

    def action_tab(self, name: str) -> None:
        """Show a tab."""
        self.query_one(Results).reveal(name)

    def action_scroll_by(self, pages: int) -> None:
        """Scroll by pages."""
        self.query_one(Results).scroll_pages(pages)

    def action_recommend(self) -> None:
        """Open the ranking for this hardware."""
        from planner.tui.screens.recommend import RecommendScreen  # not needed to plan

        try:
            rig = self.library.rig(self.settings.gpu)
        except HardwareError as error:
            self.hint(str(error), wrong=True)
            return

        def chosen(settings: Settings | None) -> None:
            if settings is not None:
                self.change(settings)

        self.app.push_screen(RecommendScreen(self.settings, rig), chosen)

    def action_validate(self) -> None:
        """Open the screen that runs the plan here."""
        text = self.outcome.command_text if self.outcome is not None else None
        if text is None:
            self.notify("There is no command to run", severity="warning")
            return
        from planner.tui.screens.validate import ValidateScreen  # not needed to plan

        self.app.push_screen(ValidateScreen(text, self.settings.model, self.settings.gpu))
