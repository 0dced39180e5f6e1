"""The application: themes, the keys that work everywhere, and the first screen."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from planner.tui.library import Library
from planner.tui.screens.help import HelpScreen
from planner.tui.screens.plan import PlanScreen
from planner.tui.settings import Settings
from planner.tui.themes import DARK, LIGHT


class VplanApp(App[None]):
    """`vplan tui`."""

    TITLE = "vplan"
    CSS_PATH = "vplan.tcss"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 (an attribute of instances to Textual)
        (0, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "theme", "light/dark", show=False),
        Binding("question_mark", "keys", "help", key_display="?"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(
        self, settings: Settings, *, path: Path | None = None, offline: bool = False
    ) -> None:
        super().__init__()
        self._settings, self._path = settings, path
        self.library = Library(offline=offline)

    def on_mount(self) -> None:
        """Open the plan screen."""
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        self.push_screen(PlanScreen(self._settings, self.library, self._path))

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen())
