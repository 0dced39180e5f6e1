"""All knobs, in two groups that stand below or beside one another."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from textual.app import ComposeResult
from textual.containers import ScrollableContainer, Vertical
from textual.events import DescendantFocus
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive

from hardware_db import HardwareError
from model_cards import CardError
from planner.errors import PlanError
from planner.settings import Settings
from planner.tui import choices
from planner.tui.knob import Knob, turn
from planner.tui.knobs import groups
from planner.tui.outcome import Outcome
from planner.tui.screens.picker import Picker
from planner.tui.widgets.aside import KeysCard, ShortCommand
from planner.tui.widgets.knob_row import KnobRow

# What a person may have written wrongly.
WRONG_INPUT: Final = (HardwareError, CardError, PlanError, OSError, ValueError)


class KnobList(ScrollableContainer, can_focus=False):
    """The left side of the plan screen: it turns settings into others.

    Below the knobs stands what there is room for.
    """

    virtual_size = Reactive(Size(0, 0), layout=False)  # as in Steady

    class Changed(Message):
        """A knob has other settings now."""

        def __init__(self, settings: Settings) -> None:
            super().__init__()
            self.settings = settings

    class Said(Message):
        """What a knob takes, or what is wrong with what was written into it."""

        def __init__(self, text: str, *, wrong: bool = False) -> None:
            super().__init__()
            self.text, self.wrong = text, wrong

    def __init__(self, settings: Settings, *, id: str) -> None:
        super().__init__(id=id)
        self._settings = settings
        self._outcome: Outcome | None = None

    def compose(self) -> ComposeResult:
        """A frame for each group."""
        for title, knobs in groups():
            with Vertical(classes="group") as group:
                group.border_title = title
                for knob in knobs:
                    yield KnobRow(knob)
        yield ShortCommand(classes="card", id="aside-command")
        yield KeysCard(classes="card", id="aside-keys")

    def show(self, settings: Settings, outcome: Outcome | None) -> None:
        """Show these settings, and what vLLM makes of them if that is known."""
        self._settings, self._outcome = settings, outcome
        for row in self._rows:
            row.show(settings, outcome)
        if outcome is not None:
            self.query_one(ShortCommand).show(outcome)

    @cached_property
    def _rows(self) -> tuple[KnobRow, ...]:
        return tuple(self.query(KnobRow))

    def show_command(self, there_is_one: bool) -> None:
        """Show the command below the knobs, or not."""
        self.query_one(ShortCommand).styles.display = None if there_is_one else "none"

    def pick(self, key: str) -> None:
        """Open the list of a knob by its name."""
        row = self.query_one(f"#knob-{key}", KnobRow)
        row.focus()
        self._pick(row.knob)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Say what the knob takes."""
        if isinstance(event.widget, KnobRow):
            self.post_message(self.Said(_hint(event.widget.knob)))

    def on_knob_row_turned(self, event: KnobRow.Turned) -> None:
        """One step."""
        event.stop()
        try:
            settings = turn(event.knob, self._settings, self._outcome, event.by)
        except WRONG_INPUT as error:
            self.post_message(self.Said(str(error), wrong=True))
            return
        steps = event.knob.steps(self._settings, self._outcome)
        hint = _hint(event.knob) if steps else f"enter: {event.knob.hint}"
        self.post_message(self.Said(hint))
        if settings is not None:
            self._change(settings)

    def on_knob_row_typed(self, event: KnobRow.Typed) -> None:
        """Say at once whether it can be taken."""
        event.stop()
        wrong = self._wrong(event.knob, event.text)
        self.post_message(self.Said(wrong or _hint(event.knob), wrong=wrong is not None))

    def on_knob_row_written(self, event: KnobRow.Written) -> None:
        """Take what was written, or say why not."""
        event.stop()
        if self._write(event.knob, event.text):
            event.row.end()

    def on_knob_row_list_asked(self, event: KnobRow.ListAsked) -> None:
        """Open the list of a knob."""
        event.stop()
        self._pick(event.knob)

    def _pick(self, knob: Knob) -> None:
        card = self._outcome.inputs.card if self._outcome is not None else None
        find = {
            "gpu": choices.gpus,
            "model": choices.models,
            "checkpoint": choices.checkpoints(self._settings),
            "speculation": choices.drafts(self._settings, card),
        }[knob.key]

        def picked(text: str | None) -> None:
            if text is not None:
                self._write(knob, text)

        self.app.push_screen(Picker(knob.label, knob.hint, find), picked)

    def _write(self, knob: Knob, text: str) -> bool:
        """Take a text; False, and why, if it cannot be taken."""
        wrong = self._wrong(knob, text)
        if wrong is not None:
            self.post_message(self.Said(wrong, wrong=True))
            return False
        self._change(knob.write(self._settings, text))
        return True

    def _wrong(self, knob: Knob, text: str) -> str | None:
        try:
            knob.write(self._settings, text)
        except WRONG_INPUT as error:
            return str(error)
        return None

    def _change(self, settings: Settings) -> None:
        self._settings = settings  # the next step may come before the answer
        self.post_message(self.Changed(settings))


def _hint(knob: Knob) -> str:
    """What a knob takes, with its name."""
    return f"{knob.label}: {knob.hint}"
