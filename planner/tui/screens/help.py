"""All keys of a screen, on one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from planner.tui.show import DIM, columns

# Keys, and what they do, under a title each. A screen names its own in `KEYS`.
Help = dict[str, dict[str, str]]

_EVERYWHERE: Final[Help] = {
    "Everywhere": {
        "paste, drop": "a vllm serve command opens as a plan, a log as a diagnosis, a plan file "
        "as what it holds; a path to one does too",
        "t": "light or dark",
        "ctrl+p": "command palette: everything that can be done here, by name",
        "?": "this page",
        "q": "quit; a validation that runs is ended first",
    }
}
_NOTE: Final = (
    "Bands [low-high] should hold nine of ten cases. exact: the same bytes as vLLM's own classes; "
    "calibrated: fitted to real launches; estimated: no data of this kind; measured: read from "
    "this machine."
)


class HelpScreen(ModalScreen[None]):
    """Closed by any of the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,question_mark,enter", "dismiss(None)", "close")
    ]

    def __init__(self, help: Help) -> None:
        super().__init__()
        self._help = help

    def compose(self) -> ComposeResult:
        """A table of keys."""
        with VerticalScroll(classes="dialog", id="help") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "↑ ↓ scroll · escape closes"
            yield Static(id="keys")
            yield Static(Content.assemble(("\n" + _NOTE, DIM)))

    def on_mount(self) -> None:
        """Write them for the width there is."""
        self.call_after_refresh(self._write)

    def on_resize(self) -> None:
        """Write them for the new width."""
        self.call_after_refresh(self._write)

    def _write(self) -> None:
        table = self.query_one("#keys", Static)
        lines = list(rows({**self._help, **_EVERYWHERE}))
        table.update(columns(lines, width=table.content_size.width))


def rows(help: Help) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Keys with what they do, below their titles."""
    for title, keys in help.items():
        yield ("", ""), (title, "bold $text-primary")
        for key, what in keys.items():
            yield (key, "bold"), (what, "")
