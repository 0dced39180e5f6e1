"""Asks for the path of a plan file."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input


class PathScreen(ModalScreen[str | None]):
    """Gives back a path, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "cancel")]

    def __init__(self, title: str, path: str) -> None:
        super().__init__()
        self._title, self._path = title, path

    def compose(self) -> ComposeResult:
        """One line of input."""
        with Vertical(classes="dialog", id="path") as dialog:
            dialog.border_title = self._title
            dialog.border_subtitle = "enter · escape cancels"
            yield Input(self._path, placeholder="plan.yaml", select_on_focus=False, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the path, if one was written."""
        if event.value.strip():
            self.dismiss(event.value.strip())
