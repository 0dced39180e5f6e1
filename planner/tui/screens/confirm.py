"""Asks before something is lost."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from planner.tui.show import plain


class ConfirmScreen(ModalScreen[bool]):
    """Gives back whether to go on; no, unless that is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "dismiss(True)", "yes"),
        ("n,escape", "dismiss(False)", "no"),
    ]

    def __init__(self, question: str, yes: str) -> None:
        super().__init__()
        self._question, self._yes = question, yes

    def compose(self) -> ComposeResult:
        """The question and two buttons."""
        with Vertical(classes="dialog", id="confirm") as dialog:
            dialog.border_subtitle = f"y {self._yes} · escape cancels"
            yield Static(Content(plain(self._question)))
            yield Button(self._yes, id="yes", compact=True)
            yield Button("cancel", id="no", compact=True)

    def on_mount(self) -> None:
        """Enter alone does no harm."""
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Take the answer."""
        self.dismiss(event.button.id == "yes")
