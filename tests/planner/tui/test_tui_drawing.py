"""What is drawn with less work is what Textual draws: its own widgets and compositor are asked."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.app import App, ComposeResult
from textual.containers import ScrollableContainer
from textual.content import Content
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Static
from tui_driver import SIZES, SMALL, Driver, drive

from planner.tui.app import VplanApp
from planner.tui.widgets.steady import Steady

TEXTS = (
    Content("one line"),
    Content.assemble(
        ("bold", "bold"), " and ", ("green over\ntwo lines", "$success"), "\n\nfourth"
    ),
    Content.assemble("wraps " * 12, ("where it is too long for its row, " * 3, "italic $primary")),
    Content("宽 wide 宽 letters 宽\tand a tab"),
    Content("ends in an empty line\n"),
    Content("same\nsame\nother\nsame"),
    Content.assemble(("nested ", "bold"), ("a\nb", "$warning")).stylize("underline", 3, 8),
    Content(""),
)
Cells = list[tuple[object, ...]]


def cells(strip: Strip) -> Cells:
    """A strip by its letters, and the looks of each; a blank has no colour of its own."""
    found: Cells = []
    for segment in strip:
        look = segment.style or Style.null()
        lines = look.underline, look.strike, look.reverse
        looks = look.bgcolor, look.bold, look.italic, look.dim, *lines
        for letter in segment.text:
            color = look.color if letter != " " or any(lines) else None
            found.append((letter, color, *looks) if color else (letter, look.bgcolor, *lines))
    return found


class Pair(App[None]):
    """Two widgets that are to look the same."""

    CSS = """
    Static { border: round $primary; padding: 1 2 0 1; width: 34; height: auto; max-height: 9; }
    """

    def compose(self) -> ComposeResult:
        """Textual's and ours."""
        with ScrollableContainer():
            yield Static(id="theirs")
            yield Steady(id="ours")


def drawn(widget: Static) -> list[Cells]:
    """All lines of a widget, its border with it."""
    return [cells(strip) for strip in widget.render_lines(widget.outer_size.region)]


def test_texts_after_one_another_look_as_static_draws_them() -> None:
    async def run() -> None:
        app, dice = Pair(), random.Random(1)
        async with app.run_test(size=(60, 40)) as pilot:
            theirs, ours = app.query_one("#theirs", Static), app.query_one("#ours", Steady)
            for text in (*TEXTS, *dice.choices(TEXTS, k=20)):
                theirs.update(text)
                ours.update(text)
                await pilot.pause()
                assert ours.size == theirs.size
                assert drawn(ours) == drawn(theirs)

    asyncio.run(run())


def test_a_text_looks_as_static_draws_it_in_another_theme_and_while_it_is_selected() -> None:
    async def run() -> None:
        app = Pair()
        async with app.run_test(size=(60, 40)) as pilot:
            theirs, ours = app.query_one("#theirs", Static), app.query_one("#ours", Steady)
            for widget in (theirs, ours):
                widget.update(TEXTS[1])
            await pilot.pause()
            app.theme = "textual-light"
            await pilot.pause()
            assert drawn(ours) == drawn(theirs)
            part = Selection(Offset(2, 0), Offset(3, 1))
            app.screen.selections = {theirs: part, ours: part}
            await pilot.pause()
            assert drawn(ours) == drawn(theirs)
            app.screen.selections = {}
            await pilot.pause()
            assert drawn(ours) == drawn(theirs)

    asyncio.run(run())


@pytest.mark.parametrize("text", TEXTS)
def test_the_mouse_finds_the_same_place_in_the_text(text: Content) -> None:
    async def run() -> None:
        app = Pair()
        async with app.run_test(size=(60, 40)) as pilot:
            theirs, ours = app.query_one("#theirs", Static), app.query_one("#ours", Steady)
            for widget in (theirs, ours):
                widget.update(text)
            await pilot.pause()
            places = [
                [
                    app.screen.get_widget_and_offset_at(widget.region.x + x, widget.region.y + y)[1]
                    for y in range(widget.region.height)
                    for x in range(widget.region.width)
                ]
                for widget in (theirs, ours)
            ]
            assert places[0] == places[1]

    asyncio.run(run())


class Terminal:
    """The cells of a terminal that is sent every update."""

    def __init__(self, app: VplanApp) -> None:
        self._app, self._display = app, app._display
        self.lines = [cells(strip) for strip in app.screen._compositor.render_strips()]
        app._display = self._take  # type: ignore[method-assign]

    def _take(self, screen: Any, update: Any) -> None:
        self._display(screen, update)
        if isinstance(update, LayoutUpdate):
            self.lines = [
                [cell for strip in strips for cell in cells(strip)] for strips in update.strips
            ]
        elif isinstance(update, ChopsUpdate):
            for y, left, right in update.spans:
                for end, (x, strip) in zip(
                    update.chop_ends[y], update.chops[y].items(), strict=True
                ):
                    if strip is not None and x < right and end > left:
                        stop = min(end, right) - x
                        self.lines[y][x : x + stop] = cells(strip)[:stop]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_is_sent_piece_by_piece_is_what_the_whole_screen_looks_like(
    size: tuple[int, int],
) -> None:
    async def script(driver: Driver) -> None:
        terminal = Terminal(driver.app)
        dice = random.Random(2)
        for _ in range(12):
            await driver.press(*dice.choices(("down", "right", "left", "v", "up", "pagedown"), k=3))
            screen = driver.app.screen
            whole = Compositor._render_chops(screen._compositor, screen.region, lambda y: True)
            assert terminal.lines == [cells(Strip.join(line.values())) for line in whole]

    drive(script, SMALL, size)
