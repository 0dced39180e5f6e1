"""Two or three plans side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from planner.comparison import Side, compare_plans
from planner.recommendation.rank import Choice, Recommendation
from planner.tui.comparison import comparison
from planner.tui.screens.help import Help
from planner.tui.show import plain
from planner.tui.widgets.key_line import KeyLine

_AROUND: Final = 4  # columns of the border of a card


class CompareScreen(Screen[Choice | None]):
    """Gives back the choice that is to be opened as a plan, or None."""

    KEYS: ClassVar[Help] = {
        "Comparison": {
            "1  2  3": "open that one as a plan",
            "pgup pgdn": "scroll",
            "escape  c": "back to the ranking",
        }
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", tooltip="Back to the ranking"),
        Binding("c", "dismiss(None)", "back", tooltip="Back to the ranking", show=False),
        Binding("1", "open(0)", "open the first", tooltip="Open the first as a plan"),
        Binding("2", "open(1)", "the second", tooltip="Open the second as a plan"),
        Binding("3", "open(2)", "the third", tooltip="Open the third as a plan"),
        Binding("pagedown", "scroll_by(1)", "scroll", show=False),
        Binding("pageup", "scroll_by(-1)", "scroll back", show=False),
    ]

    def __init__(self, found: Recommendation, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._choices = choices
        sides = [_side(each, found) for each in choices]
        self._rig = found.rig.describe()
        self._with_first = [compare_plans(sides[0], other) for other in sides[1:]]

    def compose(self) -> ComposeResult:
        """Title and table."""
        yield Static(id="title")
        with VerticalScroll(id="comparison"):
            yield Static(id="numbers", classes="card")
            yield Static(id="settings", classes="card")
        yield KeyLine()

    def on_mount(self) -> None:
        """Titles."""
        self.query_one("#title", Static).update(
            Content.assemble(
                (" vplan ", "bold reverse $primary"),
                (" Compare", "bold"),
                f" on {plain(self._rig)}",
            )
        )
        self.query_one("#numbers").border_title = "Numbers, and how they differ from the first"
        self.query_one("#settings").border_title = "Settings that differ"

    def on_resize(self) -> None:
        """Draw for the width there is."""
        names = [f"{at + 1} {c.model_id.rpartition('/')[2]}" for at, c in enumerate(self._choices)]
        numbers, *settings = comparison(names, self._with_first, self.size.width - _AROUND)
        self.query_one("#numbers", Static).update(numbers)
        card = self.query_one("#settings", Static)
        card.display = bool(settings)
        card.update(settings[0] if settings else "")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """No third is opened where there are two."""
        return action != "open" or parameters[0] in range(len(self._choices))

    def action_open(self, index: int) -> None:
        """Open one of them as a plan."""
        self.dismiss(self._choices[index])

    def action_scroll_by(self, pages: int) -> None:
        """Scroll by pages."""
        body = self.query_one("#comparison")
        body.scroll_relative(y=pages * max(1, body.size.height - 2), animate=False)


def _side(choice: Choice, found: Recommendation) -> Side:
    memory, speed = choice.settled.memory, choice.settled.speed
    return Side(
        choice.model_id, choice.card, found.rig, found.release, memory, speed, "", choice.quality
    )
