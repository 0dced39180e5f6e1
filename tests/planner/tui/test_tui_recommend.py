"""The recommend screen: filters, order, marks, plans side by side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import DataTable
from tui_driver import SMALL, Driver, drive, screen_text, shown

from hardware_db import find_rig
from planner import PlanError
from planner.comparison import Side, compare_plans
from planner.recommendation.rank import recommend
from planner.tui.ranking import COLUMNS, Filters, ordered
from planner.tui.screens.compare import CommandCard, CompareScreen
from planner.tui.screens.recommend import RecommendScreen


def rows(driver: Driver) -> list[list[str]]:
    table: DataTable[object] = driver.app.screen.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def test_filters_are_what_the_library_is_asked() -> None:
    asked = Filters("code", "32k", "open", "40").requirements(2)
    expected = recommend(find_rig("4090"), asked, vllm="0.33.0", limit=200, everything=True)
    assert expected.choices

    async def script(driver: Driver) -> None:
        await driver.press("r")
        everything = len(rows(driver))
        await driver.press("u", "slash", *"32k", "tab", *"open", "tab", *"40", "enter")
        screen = driver.app.screen
        assert isinstance(screen, RecommendScreen)
        assert [row[1] for row in rows(driver)] == [each.model_id for each in expected.choices]
        assert len(rows(driver)) < everything
        for choice in expected.choices:
            assert choice.settled.memory.config.max_model_len == 32768
            assert choice.settled.speed is None or choice.settled.speed.per_user.value >= 40
        await driver.press("slash", *"x", "enter")
        assert driver.text("#row").startswith("✘ the context")
        assert rows(driver) == []
        await driver.press("slash", "escape", "escape")
        assert driver.app.screen is driver.plan

    drive(script, replace(SMALL, concurrency=2), (200, 60))


@pytest.mark.parametrize(
    "filters", [Filters("chat", "long"), Filters("chat", "0"), Filters("chat", pace="fast"),
                Filters("chat", licence=",")]
)  # fmt: skip
def test_what_is_no_filter_is_one_line(filters: Filters) -> None:
    with pytest.raises(PlanError) as caught:
        filters.requirements(1)
    assert "\n" not in str(caught.value)


def test_every_column_sorts_and_what_has_no_value_comes_last() -> None:
    found = recommend(
        find_rig("4090"), Filters("chat").requirements(1), vllm="0.33.0", limit=30
    ).choices
    for column in COLUMNS:
        for backwards in (False, True):
            order = [column.key(each) for each in ordered(found, column, backwards=backwards)]
            known = [key for key in order if key is not None]
            assert known == sorted(
                known,
                reverse=column.largest_first != backwards,  # type: ignore[type-var]
            )
            assert order[: len(known)] == known

    async def script(driver: Driver) -> None:
        await driver.press("r")
        await driver.press("o", "o")
        names = [row[1].lower() for row in rows(driver)]
        assert names == sorted(names)
        table: DataTable[object] = driver.app.screen.query_one(DataTable)
        assert str(table.ordered_columns[1].label) == "model ↑"
        await driver.press("O")
        assert [row[1].lower() for row in rows(driver)] == sorted(names, reverse=True)
        assert str(table.ordered_columns[1].label) == "model ↓"

    drive(script, size=(200, 60))


def test_a_click_on_a_heading_sorts_by_it_and_another_turns_it_round() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("r")
        table: DataTable[object] = driver.app.screen.query_one(DataTable)
        ranked = [row[1].lower() for row in rows(driver)]
        beside = table.ordered_columns[0].get_render_width(table) + 2
        for arrow, backwards in (("↑", False), ("↓", True)):
            await driver.pilot.click(table, offset=(beside, 0))
            await driver.rest()
            names = [row[1].lower() for row in rows(driver)]
            assert names == sorted(ranked, reverse=backwards)
            assert str(table.ordered_columns[1].label) == f"model {arrow}"

    drive(script, size=(200, 60))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_three_plans_stand_side_by_side_and_one_is_opened(size: tuple[int, int]) -> None:
    async def script(driver: Driver) -> None:
        await driver.press("r", "c")
        assert isinstance(driver.app.screen, RecommendScreen)  # one alone is no comparison
        await driver.press("space", "down", "space", "down", "space", "down", "space")
        assert sum("●" in row[1] for row in rows(driver)) == 3
        await driver.press("c")
        screen = driver.app.screen
        assert isinstance(screen, CompareScreen)
        first, second, third = screen._choices
        numbers, sizes = driver.text("#numbers"), driver.text("#memory")
        for each in (first, second, third):
            rank = each.settled.memory.tightest
            for size in (rank.weights, rank.activation, rank.kv_cache):
                assert f"{size.value / 2**30:.2f}" in sizes
                if size.low < size.high:
                    assert f"[{size.low / 2**30:.2f}-{size.high / 2**30:.2f}]" in sizes
        bars = [line for line in sizes.splitlines() if "W█" in line and "weights" not in line]
        assert [line.count("K") for line in bars] == [3, 3]
        commands = "\n".join(map(shown, screen.query(CommandCard)))
        for each in (first, second, third):
            assert f"vllm serve {each.model_id}" in commands
            assert f"--max-num-seqs {each.settled.memory.config.max_num_seqs}" in commands
        assert "quality" in numbers
        assert "for each user" in numbers
        assert "for each user" in screen_text(driver.app)
        await driver.press("escape", "c", "2")
        assert driver.app.screen is driver.plan
        assert driver.plan.settings.model == second.model_id
        assert driver.plan.settings.config == second.settled.config

    drive(script, size=size)


def test_differences_are_those_of_vplan_compare() -> None:
    found = recommend(find_rig("4090"), Filters("chat").requirements(1), limit=2)
    one, other = (
        Side(c.model_id, c.card, found.rig, found.release, c.settled.memory, c.settled.speed)
        for c in found.choices
    )
    rows = compare_plans(one, other).rows

    async def script(driver: Driver) -> None:
        driver.app.push_screen(CompareScreen(found, found.choices))
        await driver.rest()
        text = driver.text("#numbers") + driver.text("#memory")
        for row in rows:
            assert row.name in text

    drive(script, size=(120, 40))


def test_each_model_is_told_of_and_who_is_told_can_end_it() -> None:
    heard: list[tuple[int, int]] = []
    recommend(
        find_rig("4090"), Filters("chat").requirements(1), everything=True,
        told=lambda done, models: heard.append((done, models)),
    )  # fmt: skip
    many = heard[0][1]
    assert heard == [(done, many) for done in range(many)]

    def enough(done: int, models: int) -> None:
        if done == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        recommend(find_rig("4090"), Filters("chat").requirements(1), told=enough)


def test_where_nothing_works_the_smallest_models_say_why() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("r", "slash", "tab", "tab", *"9999", "enter")
        assert rows(driver) == []
        told = driver.text("#no-rows").splitlines()
        reasons = [line for line in told if "fewer than 9999" in line]
        assert reasons[0].startswith("SmolLM2-135M-Instruct")
        assert len(reasons) > 5
        await driver.press("slash", "tab", "tab", "backspace", "backspace", "enter")
        assert rows(driver)  # 99 tokens a second
        assert driver.app.focused is driver.app.screen.query_one(DataTable)

    drive(script)
