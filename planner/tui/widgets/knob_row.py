"""One knob, in one line: arrows turn it, Enter writes into it."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click, Key
from textual.message import Message
from textual.widgets import Input, Static

from planner.settings import Settings
from planner.tui.knob import Knob
from planner.tui.outcome import Outcome
from planner.tui.show import plain, shorten

LABEL: Final = 14  # columns of the label
_MARKS: Final = 4  # and of the two arrows beside a value


class KnobRow(Static, can_focus=True):
    """A label, a value, and over that, while it is written into, a line of input.

    One widget, not one for each part: all that are in sight are gone through at every drawing.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,plus,l", "turn(1)", "turn", show=False),
        Binding("left,minus,h", "turn(-1)", "turn back", show=False),
        Binding("down,j", "go(1)", "next", show=False),
        Binding("up,k", "go(-1)", "previous", show=False),
        Binding("enter", "write", "write", show=False),
    ]

    class Turned(Message):
        """The knob was turned by one step."""

        def __init__(self, knob: Knob, by: int) -> None:
            super().__init__()
            self.knob, self.by = knob, by

    class Typed(Message):
        """Something is being written, not yet entered."""

        def __init__(self, knob: Knob, text: str) -> None:
            super().__init__()
            self.knob, self.text = knob, text

    class Written(Message):
        """Something was written and entered."""

        def __init__(self, row: KnobRow, text: str) -> None:
            super().__init__()
            self.row, self.knob, self.text = row, row.knob, text

    class ListAsked(Message):
        """A list to pick from is asked for."""

        def __init__(self, knob: Knob, start: str = "") -> None:
            super().__init__()
            self.knob, self.start = knob, start

    def __init__(self, knob: Knob) -> None:
        super().__init__(id=f"knob-{knob.key}")
        self.knob = knob
        self._value, self._text = "", ""
        self._marked = False
        self._drawn = ""

    def show(self, settings: Settings, outcome: Outcome | None) -> None:
        """Show the value of these settings."""
        self._value = plain(self.knob.show(settings, outcome))
        self._text = self.knob.text(settings)
        self._draw()

    def end(self) -> None:
        """Close the line of input."""
        for line in self.query(Input):
            line.remove()
        self.focus()

    def action_turn(self, by: int) -> None:
        """One step on or back."""
        self.post_message(self.Turned(self.knob, by))

    def action_go(self, by: int) -> None:
        """To the next knob; from the last to the first."""
        rows = list(self.screen.query(KnobRow))
        rows[(rows.index(self) + by) % len(rows)].focus()

    def action_write(self, start: str | None = None) -> None:
        """Open the list, or a line of input."""
        if self.knob.picks:
            self.post_message(self.ListAsked(self.knob, start or ""))
            return
        if self.query(Input):
            return
        line = Input(self._text if start is None else start, compact=True, select_on_focus=False)
        self.mount(line)
        line.focus()
        line.cursor_position = len(line.value)

    def on_key(self, event: Key) -> None:
        """A digit begins to write; Escape stops writing."""
        if self.query(Input):
            if event.key == "escape":
                event.stop()
                self.end()
                self.post_message(self.Typed(self.knob, self._text))
        elif event.character is not None and event.character.isdigit() and not self.knob.picks:
            event.stop()
            self.action_write(event.character)

    def on_click(self, event: Click) -> None:
        """The arrows turn; the value opens what Enter opens."""
        x = event.screen_x - self.region.x - LABEL
        if x < 0 or self.query(Input):
            return
        if x < _MARKS // 2:
            self.action_turn(-1)
        elif x >= self.region.width - LABEL - _MARKS // 2:
            self.action_turn(1)
        else:
            self.action_write()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what is typed."""
        event.stop()
        self.post_message(self.Typed(self.knob, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Say what is entered."""
        event.stop()
        self.post_message(self.Written(self, event.value))

    def on_focus(self) -> None:
        """Show that arrows work here."""
        self._marked = True
        self._draw()

    def on_blur(self) -> None:
        """Show that they work elsewhere."""
        self._marked = False
        self._draw()

    def on_resize(self) -> None:
        """Draw for the new width."""
        self._draw()

    def _draw(self) -> None:
        width = max(4, self.size.width - LABEL - _MARKS)
        text = shorten(self._value, width)
        marks = ("‹ ", " ›") if self._marked else ("  ", "  ")
        drawn = f"{marks[0]}{text:<{width}}{marks[1]}"
        if drawn != self._drawn:
            self._drawn = drawn
            label, bold = self.knob.label, "bold" if self._marked else ""
            pieces = (label, bold or "$foreground 70%"), " " * (LABEL - len(label)), (drawn, bold)
            self.update(Content.assemble(*pieces), layout=False)
