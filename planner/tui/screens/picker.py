"""A list to pick from, narrowed down by typing."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from planner.tui.choices import Choices, Find
from planner.tui.show import DIM, plain

_WIDEST: Final = 48  # columns of entries whose notes stand below each other


class Picker(ModalScreen[str | None]):
    """Gives back what was picked, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "cancel"),
        Binding("down", "move(1)", "next", priority=True),
        Binding("up", "move(-1)", "previous", priority=True),
        Binding("pagedown", "move(10)", "further", priority=True),
        Binding("pageup", "move(-10)", "back", priority=True),
    ]

    def __init__(self, title: str, hint: str, find: Find, start: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._find, self._start = title, hint, find, start
        self._choices = Choices((), "")

    def compose(self) -> ComposeResult:
        """A line of input, the list, and a line on what was typed."""
        with Vertical(classes="dialog", id="picker") as dialog:
            dialog.border_title = self._title
            dialog.border_subtitle = "enter picks · escape cancels"
            yield Input(self._start, placeholder=self._hint, select_on_focus=False, compact=True)
            yield OptionList(compact=True)
            yield Static(classes="line")

    def on_mount(self) -> None:
        """Begin with what there is."""
        self.query_one(OptionList).can_focus = False
        self._narrow(self._start)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list down."""
        self._narrow(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Pick what is highlighted."""
        position = self.query_one(OptionList).highlighted
        if position is not None and self._choices.entries:
            self.dismiss(self._choices.entries[position].text)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Pick what was clicked."""
        self.dismiss(self._choices.entries[event.option_index].text)

    def action_move(self, by: int) -> None:
        """Move the highlight."""
        options = self.query_one(OptionList)
        if options.option_count:
            now = options.highlighted or 0
            options.highlighted = max(0, min(options.option_count - 1, now + by))

    def _narrow(self, query: str) -> None:
        self._choices = self._find(query)
        options = self.query_one(OptionList)
        options.clear_options()
        texts = [plain(choice.text) for choice in self._choices.entries]
        width = min(_WIDEST, max(map(len, texts), default=0))
        options.add_options(
            Option(Content.assemble(f"{text:<{width}}", (f"  {plain(choice.note)}", DIM)))
            for text, choice in zip(texts, self._choices.entries, strict=True)
        )
        if self._choices.entries:
            options.highlighted = 0
        line = self.query_one(".line", Static)
        line.update(Content(plain(self._choices.line)))
        line.set_class(not self._choices.ok, "-wrong")
