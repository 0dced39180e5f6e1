"""The application: themes, the keys that work everywhere, and the first screen."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key, MouseDown, Paste
from textual.reactive import Reactive
from textual.screen import Screen
from textual.theme import Theme

from planner.settings import Settings
from planner.tui.background import SPARE_TIME, Running
from planner.tui.documents import Documents
from planner.tui.keys import called, usable
from planner.tui.library import Library
from planner.tui.screens.help import HelpScreen
from planner.tui.screens.plan import PlanScreen
from planner.tui.session import keep
from planner.tui.themes import DARK, LIGHT

_CLOSES: Final = 0.1  # seconds that the palette takes to be gone
_COLLECTS: Final = (10_000, 20, 20)  # drawing leaves much behind, which is seldom worth a look
_SWITCHES: Final = 0.0005  # seconds that what runs in the background may keep a key waiting


class VplanApp(App[None]):
    """`vplan tui`."""

    TITLE = "vplan"
    theme: Reactive[str] = Reactive(DARK.name)  # from the first: another is all of the looks again
    CSS_PATH = "vplan.tcss"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 (an attribute of instances to Textual)
        (0, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "keys", "help", key_display="?", tooltip="Help: all keys"),
        Binding("q", "quit", "quit", tooltip="Quit"),
        Binding("t", "theme", "light/dark", show=False),
    ]

    def __init__(
        self,
        settings: Settings,
        library: Library,
        *,
        path: Path | None = None,
        greeting: str = "",
        alone: bool = False,
    ) -> None:
        """`alone`: the process is there for this app, which then decides how it is collected."""
        super().__init__()
        self._alone = alone
        self._plan = PlanScreen(settings, library, path)
        self._documents = Documents(self, self._plan)
        self._greeting = greeting

    @property
    def available_themes(self) -> dict[str, Theme]:
        """By name."""
        return {theme.name: theme for theme in (DARK, LIGHT)}

    def on_mount(self) -> None:
        """Open the plan screen."""
        self.push_screen(self._plan)
        if self._greeting:
            self.notify(self._greeting, severity="warning", timeout=20)

    def on_ready(self) -> None:
        """Begin what waits for the first picture."""
        self._plan.call_after_refresh(self._drawn)

    def _drawn(self) -> None:
        """What is there once the plan is drawn stays: no collection goes through it again."""
        self._plan.drawn()
        if self._alone:
            gc.freeze()
            gc.set_threshold(*_COLLECTS)
            gc.enable()  # it may run for days
            sys.setswitchinterval(_SWITCHES)

    async def on_event(self, event: Event) -> None:
        """A key goes before what is done in the background."""
        if isinstance(event, Key | MouseDown):
            SPARE_TIME.postpone()
        await super().on_event(event)

    def on_paste(self, event: Paste) -> None:
        """What is pasted or dropped, and no line of input took, is opened."""
        event.stop()
        self._documents.take(event.text)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The command palette: all that the screen's keys do, and a picture of it."""
        for node, where in ((screen, "screen"), (self, "app")):
            for binding in usable(node):
                title = binding.tooltip or binding.description.capitalize()
                call = partial(self.run_action, called(binding, where))
                yield SystemCommand(title, f"key {self.get_key_display(binding)}", call)
        yield SystemCommand("Light or dark", "key t", self.action_theme)
        yield SystemCommand(
            "Save a picture of this screen",
            "as SVG",
            lambda: self.set_timer(_CLOSES, self.deliver_screenshot),
        )

    async def action_quit(self) -> None:
        """Quit, with the session kept; a server that is being validated ends first."""
        for screen in self.screen_stack:
            if isinstance(screen, Running):
                await screen.end()
        self.workers.cancel_all()  # an answer would meet widgets that are gone
        if self._plan.outcome is not None:
            keep(self._plan.outcome.settings)
        self.exit()

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_keys(self) -> None:
        """Show all keys of the screen."""
        self.push_screen(HelpScreen(getattr(self.screen, "KEYS", {})))

    def action_save(self) -> None:
        """Save the plan."""
        self._documents.save()

    def action_export(self) -> None:
        """Save the command."""
        self._documents.export()

    def action_load(self) -> None:
        """Open a plan file or a log."""
        self._documents.open()

    def action_paste(self) -> None:
        """Ask for a command."""
        self._documents.paste()
