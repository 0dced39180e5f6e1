"""Speculative methods for this model and load: what each gains, up to which batch, for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from planner.cli.format import gib
from planner.errors import PlanError
from planner.memory.verdict import Answer
from planner.quantity import Quantity
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, columns, plain, shorten
from planner.tui.widgets.study import Study

if TYPE_CHECKING:  # imported once an answer is asked for
    from planner.speed.speculation_choice import SpeculationChoice
    from planner.speed.speculative_option import SpeculativeOption

_ROOMY: Final = 100  # columns from which on gains are shown for several batches
_BESIDE_NAME: Final = 53  # columns of the others; of those for batches
_OF_A_BATCH: Final = 7
_SHORTEST: Final = 12


class SpeculationPanel(Study["SpeculationChoice"]):
    """A row for each method that is known for the model, the best first."""

    BORDER_TITLE = "Speculation"

    def ask(self, outcome: Outcome) -> SpeculationChoice:
        """Judge every method."""
        from planner.speed.acceptance import task_of
        from planner.speed.speculation_choice import choose_speculation

        if outcome.memory is None or outcome.answer is Answer.NO:
            raise PlanError("it does not start: drafts would only take more memory")
        settings = outcome.settings
        return choose_speculation(
            outcome.memory, settings.workload, task=task_of(settings.use_case)
        )

    @property
    def choice(self) -> SpeculationChoice | None:
        """The answer, if it is about what is shown."""
        return self._answer if self._asked is self.outcome else None

    def draw_answer(self, answer: SpeculationChoice, outcome: Outcome, width: int) -> Content:
        """The table, and which to use."""
        if not answer.options:
            return Content.assemble((plain(answer.reason) or "no draft is known", DIM))
        batches = [batch for batch, _, _ in answer.options[0].gains] if width >= _ROOMY else []
        heading = ["", "method", "draft", "tok.", "times as fast"]
        heading += [f"at {batch}" for batch in batches]
        heading += ["pays up to", "GiB"]
        name = max(_SHORTEST, width - _BESIDE_NAME - _OF_A_BATCH * len(batches))
        rows = [tuple((text, DIM) for text in heading)]
        usable = [each for each in answer.options if each.gain is not None]
        rows += [_row(each, answer, len(batches), name) for each in usable]
        many = len(heading)
        numbers = (3, *range(5, many))
        lines = [columns(rows, gap=1, right=numbers)] if usable else []
        reason = Content(plain(answer.reason))
        if answer.chosen is not None:
            reason = Content.assemble(
                (" d ", "bold reverse"), f" use {answer.chosen.kind}: ", reason
            )
        lines.append(reason)
        lines += [
            Content.assemble((f"✘ {each.kind}: {plain(each.problem or '')}", DIM))
            for each in answer.options
            if each.gain is None
        ]
        return Content("\n").join(lines)


def _row(
    option: SpeculativeOption, choice: SpeculationChoice, batches: int, name: int
) -> tuple[tuple[str, str], ...]:
    from planner.speed.speculative import LARGEST_BATCH

    assert option.gain is not None
    chosen = choice.chosen is not None and option.name == choice.chosen.name
    style = "bold" if chosen else ""
    even = f"{option.break_even:,}" if option.break_even else "never"
    if option.break_even >= LARGEST_BATCH:
        even = "any"
    about = "" if option.draft_exact else "~"
    return (
        ("▸" if chosen else " ", "bold"),
        (option.kind, style),
        (_name(option.draft.model, name), style),
        (str(option.tokens), ""),
        (_band(option.gain), "bold $text-success" if option.gain.low > 1 else ""),
        *((f"{gain.value:.2f}", "") for _, _, gain in option.gains[:batches]),
        (even, ""),
        (about + gib(option.draft_bytes), ""),
    )


def _name(model: str | None, width: int) -> str:
    """The draft's repository, without its owner where there is no room for both."""
    if model is None:
        return "-"
    return plain(model if len(model) <= width else shorten(model.rpartition("/")[2], width))


def _band(gain: Quantity) -> str:
    return f"{gain.value:.2f} [{gain.low:.2f}-{gain.high:.2f}]"
