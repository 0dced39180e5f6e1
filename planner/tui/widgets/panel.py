"""Panel: a part of the plan screen that shows an outcome."""

from __future__ import annotations

from planner.tui.outcome import Outcome
from planner.tui.widgets.steady import Steady


class Panel(Steady):
    """Shows what the planner says; `show` is called after every change.

    A panel says in `draw` how it looks at the width there is, which changes with the terminal.
    """

    outcome: Outcome | None = None
    _drawn: Outcome | None = None
    _drawn_at = 0, 0  # columns there were for it, and lines of the terminal

    def show(self, outcome: Outcome) -> None:
        """Show an outcome."""
        self.outcome = outcome
        self.redraw()

    def redraw(self) -> None:
        """Draw again what is there."""
        if self.outcome is not None and self.display and self.content_size.width > 0:
            self._drawn, self._drawn_at = self.outcome, self._at
            self.draw(self.outcome, self.content_size.width)

    def draw(self, outcome: Outcome, width: int) -> None:
        """Draw an outcome in so many columns."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Draw for the new width; of another height of its own nothing depends."""
        if self._drawn is not self.outcome or self._drawn_at != self._at:
            self.redraw()

    @property
    def _at(self) -> tuple[int, int]:
        return self.content_size.width, self.app.size.height
