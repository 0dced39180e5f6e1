"""The verdict: will it start, how sure is that, why not, and what would mend it."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from planner.cli.format import chance, times_band
from planner.memory.verdict import Answer
from planner.tui.outcome import Outcome
from planner.tui.show import ANSWERS, DIM, plain
from planner.tui.widgets.steady import Steady


class VerdictPanel(Steady):
    """The answer, its reason and what to do, always in sight."""

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
        sign, _, style = ANSWERS[Answer.NO]
        paint(self, "no")
        text = plain(" ".join(problem.split()))
        self.update(Content.assemble((f"{sign} no plan  ", f"bold {style}"), text))

    def show_opening(self, what: str) -> None:
        """Show that a model is being opened."""
        paint(self, None)
        self.update(Content.assemble(("… opening  ", "bold"), plain(what), ("\nescape: stop", DIM)))

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
        sign, words, style = ANSWERS[outcome.answer]
        paint(self, outcome.answer.value)
        first = [(f"{sign} {words}", f"bold {style}")]
        if outcome.memory is not None:
            first.append((f"  chance of refusal: {chance(outcome.chance_of_refusal)}", DIM))
        lines = [Content.assemble(*first)]
        if outcome.answer is not Answer.YES:
            lines.append(Content(plain(outcome.reason)))
        lines.append(second)
        self.update(Content("\n").join(line for line in lines if line))


def paint(widget: Widget, answer: str | None) -> None:
    """Give a widget the colour of an answer: yes, risky or no."""
    for each in Answer:
        widget.set_class(each.value == answer, f"-{each.value}")
