"""Two or three plans side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from planner.cli.comparison_text import change, shown
from planner.comparison import Comparison, Side, compare_plans
from planner.recommendation.rank import Choice, Recommendation
from planner.tui.screens.help import Help
from planner.tui.show import DIM, columns, plain, shorten
from planner.tui.widgets.key_line import KeyLine

_NAMES: Final = 25  # columns of what stands before the numbers, with the gap behind it
_WIDEST: Final = 44  # columns that one of the sides takes at most
_BAND: Final = re.compile(r" \[[^\]]*\]")


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
        each = min(_WIDEST, (self.size.width - _NAMES - 4) // len(self._choices))
        names = [f"{at + 1} {c.model_id.rpartition('/')[2]}" for at, c in enumerate(self._choices)]
        padded = [f"{shorten(plain(name), each - 2):<{each - 2}}" for name in names]
        heading = [(" " * (_NAMES - 2), ""), *((name, "bold") for name in padded)]
        self.query_one("#numbers", Static).update(
            columns([heading, *_numbers(self._with_first, each)])
        )
        settings = list(_settings(self._with_first, each))
        card = self.query_one("#settings", Static)
        card.display = bool(settings)
        card.update(columns([heading, *settings]) if settings else "")

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


Cells = list[tuple[str, str]]


def _numbers(compared: Sequence[Comparison], width: int) -> list[Cells]:
    """A row for every number that any of them has: that of the first, and of each other."""
    keys = dict.fromkeys((row.name, row.unit) for each in compared for row in each.rows)
    rows: list[Cells] = []
    for key in keys:
        found = [
            next((row for row in each.rows if (row.name, row.unit) == key), None)
            for each in compared
        ]
        first = next(row for row in found if row is not None)
        cells: Cells = [(key[0], ""), (_fitted(shown(first, first.one), width), "bold")]
        for row in found:
            if row is None:
                cells.append(("-", ""))
                continue
            differs = change(row)
            mark = f"  {differs}" if differs else ""
            cells.append((_fitted(f"{shown(row, row.other)}{mark}", width), "bold"))
        rows.append(cells)
    return rows


def _fitted(text: str, width: int) -> str:
    """The text, without its band where that is too long, and what then still is."""
    if len(text) <= width - 2:
        return text
    without = _BAND.sub("", text)
    return without if len(without) <= width - 2 else without.partition("  ")[0]


def _settings(compared: Sequence[Comparison], width: int) -> list[Cells]:
    """Settings that are not the same in all of them."""
    names = dict.fromkeys(each.setting for one in compared for each in one.differences)
    rows: list[Cells] = []
    for name in names:
        found = [
            next((each for each in one.differences if each.setting == name), None)
            for one in compared
        ]
        mine = next(each.one for each in found if each is not None)
        cells: Cells = [(name.replace("_", " "), DIM), (shorten(plain(mine), width - 2), "")]
        cells += [
            (shorten(plain(each.other if each is not None else mine), width - 2), "")
            for each in found
        ]
        rows.append(cells)
    return rows
