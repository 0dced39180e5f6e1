"""Study: a panel whose answer takes longer than a plan, and is asked for once nothing turns."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual.content import Content

from planner.tui.outcome import Outcome
from planner.tui.show import DIM, plain
from planner.tui.widgets.panel import Panel

Answer = TypeVar("Answer")


class Study(Panel, Generic[Answer]):
    """Shows its last answer until there is another, or a line on why there is none."""

    _answer: Answer | None = None
    _why_none = ""
    _asked: Outcome | None = None  # what the answer is about

    def ask(self, outcome: Outcome) -> Answer:
        """The answer; called in a thread. Raises `PlanError` where there is none."""
        raise NotImplementedError

    def draw_answer(self, answer: Answer, outcome: Outcome, width: int) -> Content:
        """The answer in so many columns."""
        raise NotImplementedError

    def show(self, outcome: Outcome) -> None:
        """Another outcome changes nothing of what is shown until there is an answer about it."""
        self.outcome = outcome
        if self._asked is None:
            self.redraw()

    def wants(self, outcome: Outcome) -> bool:
        """Whether it is in sight, and its answer about something else."""
        return self.display and self._asked is not outcome

    def tell(self, outcome: Outcome, answer: Answer | None, why_none: str = "") -> None:
        """Show an answer, or why there is none."""
        self._answer, self._why_none, self._asked = answer, why_none, outcome
        self.redraw()

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show what is known."""
        if self._answer is None:
            self.update(Content.assemble((plain(self._why_none) or "…", DIM)))
        else:
            about = self._asked or outcome
            self.update(self.draw_answer(self._answer, about, width))
