"""Two or three plans side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from planner.cli.format import short_count
from planner.command.render import render_command
from planner.comparison import Side, compare_plans
from planner.errors import PlanError
from planner.recommendation.rank import Choice, Recommendation
from planner.tui.budget import UNSURE
from planner.tui.comparison import comparison
from planner.tui.screens.help import Help
from planner.tui.show import DIM, plain
from planner.tui.widgets.command import explained
from planner.tui.widgets.key_line import KeyLine

_AROUND: Final = 4  # columns of the border of a card
_TABLES: Final = {
    "numbers": "Numbers, and how they differ from the first",
    "memory": f"Memory of a GPU in GiB, {UNSURE} may be less",
    "settings": "Settings that differ",
    "about": "Models",
}


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
        self._names = [
            f"{at} {each.model_id.rpartition('/')[2]}" for at, each in enumerate(choices, 1)
        ]
        self._with_first = [compare_plans(sides[0], other) for other in sides[1:]]

    def compose(self) -> ComposeResult:
        """Title, tables in one grid, and the command of each."""
        yield Static(id="title")
        with VerticalScroll(id="comparison"):
            for name in _TABLES:
                yield Static(id=name, classes="card")
            with Horizontal(id="commands"):
                for choice in self._choices:
                    yield CommandCard(choice, classes="card")
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
        for name, title in _TABLES.items():
            self.query_one(f"#{name}").border_title = title
        for name, card in zip(self._names, self.query(CommandCard), strict=True):
            card.border_title = f"Command of {name}"

    def on_resize(self) -> None:
        """Draw for the width there is."""
        width = self.size.width - _AROUND
        tables = comparison(self._names, self._with_first, _about(self._choices), width)
        for name in _TABLES:
            card, content = self.query_one(f"#{name}", Static), getattr(tables, name)
            card.display = content is not None
            card.update(content or "")

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


class CommandCard(Static):
    """The command of a choice, with why each option is there."""

    def __init__(self, choice: Choice, *, classes: str) -> None:
        super().__init__(classes=classes)
        self._choice = choice

    def on_resize(self) -> None:
        """Draw for the width there is."""
        settled = self._choice.settled
        try:
            command = render_command(settled.memory, settled.reasons)
        except PlanError as error:
            self.update(Content.assemble((plain(str(error)), DIM)))
        else:
            self.update(explained(command, self.content_size.width))


def _about(choices: Sequence[Choice]) -> list[tuple[str, list[str]]]:
    """What a ranking says of its models, by what it is."""
    cards = [each.card for each in choices]
    return [
        ("from", [each.model_id.rpartition("/")[0] for each in choices]),
        ("released", [each.released for each in choices]),
        ("licence", [card.license or "not known" for card in cards]),
        ("format", [card.format_kind for card in cards]),
        ("parameters", [short_count(card.parameters) for card in cards]),
        ("of these active", [short_count(card.active_parameters) for card in cards]),
        ("longest context", [f"{card.max_model_len:,}" for card in cards]),
        ("context as planned", [f"{e.settled.memory.config.max_model_len:,}" for e in choices]),
        ("quality from", [each.quality.evidence for each in choices]),
    ]


def _side(choice: Choice, found: Recommendation) -> Side:
    memory, speed = choice.settled.memory, choice.settled.speed
    return Side(
        choice.model_id, choice.card, found.rig, found.release, memory, speed, "", choice.quality
    )
