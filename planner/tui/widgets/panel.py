"""Panel: a part of the plan screen that shows an outcome."""

from __future__ import annotations

from planner.tui.outcome import Outcome
from planner.tui.widgets.steady import Steady


class Panel(Steady):
    """Shows what the planner says; `show` is called after every change.

    A panel says in `draw` how it looks at the width there is, which changes with the terminal.
    """

    outcome: Outcome | None = None

    def show(self, outcome: Outcome) -> None:
        """Show an outcome."""
        self.outcome = outcome
        self.redraw()

    def redraw(self) -> None:
        """Draw again what is there."""
        if self.outcome is not None and self.display and self.content_size.width > 0:
            self.draw(self.outcome, self.content_size.width)

    def draw(self, outcome: Outcome, width: int) -> None:
        """Draw an outcome in so many columns."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.redraw()
