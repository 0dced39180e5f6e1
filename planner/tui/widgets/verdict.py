"""The verdict: will it start, how sure is that, why not, and what would mend it."""

from __future__ import annotations

from time import monotonic
from typing import Final

from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from planner.cli.format import chance, times_band
from planner.memory.verdict import Answer
from planner.tui.outcome import Outcome
from planner.tui.show import ANSWERS, DIM, plain
from planner.tui.widgets.steady import Steady

_EVERY: Final = 0.5  # seconds from one look at the clock to the next, while a model is opened


class VerdictPanel(Steady):
    """The answer, its reason and what to do, always in sight."""

    _opening = ""  # the model that is waited for
    _since = 0.0
    _waits: Timer | None = None

    def show(self, outcome: Outcome) -> None:
        """Show the answer and its first reason."""
        self._show(outcome, self._second(outcome))

    def show_remedy(self, outcome: Outcome, change: str | None) -> None:
        """Show what would mend it, None where nothing was found."""
        if change is None:
            line = Content.assemble(("Nothing was found that would start on this hardware.", DIM))
        else:
            line = Content.assemble((" f ", "bold reverse"), f" apply {plain(change)}")
        self._show(outcome, line)

    def show_problem(self, problem: str) -> None:
        """Show why there is nothing to plan."""
        self._end_waiting()
        sign, _, style = ANSWERS[Answer.NO]
        paint(self, "no")
        text = plain(" ".join(problem.split()))
        self.update(Content.assemble((f"{sign} no plan  ", f"bold {style}"), text))

    def show_opening(self, what: str) -> None:
        """Show that a model is being opened, and for how long."""
        paint(self, None)
        self._opening, self._since = what, monotonic()
        self._waited()
        if self._waits is None:
            self._waits = self.set_interval(_EVERY, self._waited)

    def _waited(self) -> None:
        seconds = f"  {monotonic() - self._since:.0f} s"
        self._say(
            Content.assemble(("… opening  ", "bold"), (plain(self._opening), ""), (seconds, DIM)),
            Content.assemble((" escape ", "bold reverse"), " stop, and back to what was there"),
        )

    def _say(self, *lines: Content) -> None:
        self.update(Content("\n").join(line for line in lines if line))

    def _end_waiting(self) -> None:
        if self._waits is not None:
            self._waits.stop()
            self._waits = None

    def _second(self, outcome: Outcome) -> Content:
        if outcome.can_be_mended:
            return Content.assemble(("looking for what would start …", DIM))
        if outcome.answer is Answer.YES and outcome.memory is not None:
            held = times_band(outcome.memory.max_concurrency)
            length = outcome.memory.config.max_model_len
            if outcome.memory.kv_cache.groups:
                return Content(f"{held} requests of {length:,} tokens at once")
        return Content("")

    def _show(self, outcome: Outcome, second: Content) -> None:
        self._end_waiting()
        sign, words, style = ANSWERS[outcome.answer]
        paint(self, outcome.answer.value)
        first = [(f"{sign} {words}", f"bold {style}")]
        if outcome.memory is not None:
            first.append((f"  chance of refusal: {chance(outcome.chance_of_refusal)}", DIM))
        lines = [Content.assemble(*first)]
        if outcome.answer is not Answer.YES:
            lines.append(Content(plain(outcome.reason)))
        lines.append(second)
        self._say(*lines)


def paint(widget: Widget, answer: str | None) -> None:
    """Give a widget the colour of an answer: yes, risky or no."""
    for each in Answer:
        widget.set_class(each.value == answer, f"-{each.value}")
