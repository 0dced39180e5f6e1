"""All knobs, in two groups that stand below or beside one another."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import ScrollableContainer, Vertical

from planner.tui.knobs import groups
from planner.tui.outcome import Outcome
from planner.tui.settings import Settings
from planner.tui.widgets.knob_row import KnobRow


class KnobList(ScrollableContainer, can_focus=False):
    """The left side of the plan screen."""

    def compose(self) -> ComposeResult:
        """A frame for each group."""
        for title, knobs in groups():
            with Vertical(classes="group") as group:
                group.border_title = title
                for knob in knobs:
                    yield KnobRow(knob)

    def show(self, settings: Settings, outcome: Outcome | None) -> None:
        """Show these settings, and what vLLM makes of them if that is known."""
        for row in self.query(KnobRow):
            row.show(settings, outcome)
