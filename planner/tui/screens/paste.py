"""Takes a `vllm serve` command."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea


class PasteScreen(ModalScreen[str | None]):
    """Gives back the text of a command, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "cancel", priority=True),
        Binding("ctrl+s,ctrl+j,ctrl+enter,f2", "take", "open", priority=True),
    ]

    def compose(self) -> ComposeResult:
        """A few lines of text."""
        with Vertical(classes="dialog", id="paste") as dialog:
            dialog.border_title = "Paste a command"
            dialog.border_subtitle = "ctrl+s opens it as a plan · escape cancels"
            yield Static("vllm serve …, python -m vllm…, docker run vllm/vllm-openai:…")
            yield TextArea(tab_behavior="focus", soft_wrap=True)

    def action_take(self) -> None:
        """Take the text, if there is any."""
        text = self.query_one(TextArea).text
        self.dismiss(text if text.strip() else None)
