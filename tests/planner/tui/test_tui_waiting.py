"""It never blocks: a model that takes its time is waited for, stopped, or left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tui_driver import SMALL, Driver, drive

from model_cards import ModelCard, UnknownModel
from model_cards.sources.bundled import open_bundled

SLOW = "slow/model"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A Hub that answers when the event is set."""
    answers = threading.Event()

    def open_card(model: str, **_: object) -> ModelCard:
        if model == SLOW:
            answers.wait(60)
        card = open_bundled("Qwen/Qwen3-4B" if model == SLOW else model)
        if card is None:
            raise UnknownModel(f"Unknown model {model}")
        return card

    monkeypatch.setattr("planner.tui.library.open_card", open_card)
    yield answers
    answers.set()


async def ask(driver: Driver) -> None:
    await driver.pilot.press("m", *"slow", "slash", *"model", "enter")
    await driver.pilot.pause()
    assert driver.text("#verdict").startswith("… opening")


def test_what_the_hub_answers_is_shown_when_it_does(hub: threading.Event) -> None:
    async def script(driver: Driver) -> None:
        await ask(driver)
        await driver.focus("concurrency")  # the keys still work
        hub.set()
        await driver.rest()
        assert driver.text("#verdict").startswith("✔ starts")
        assert driver.plan.settings.model == SLOW

    drive(script)


def test_escape_goes_back_and_a_late_answer_is_dropped(hub: threading.Event) -> None:
    async def script(driver: Driver) -> None:
        await ask(driver)
        await driver.press("escape")
        assert driver.plan.settings == SMALL
        assert driver.text("#verdict").startswith("✔ starts")
        hub.set()
        await driver.rest()
        assert driver.plan.settings == SMALL
        assert "Qwen3-8B" in driver.text("#title")

    drive(script)


def test_what_was_planned_before_is_put_away_while_a_model_is_opened(hub: threading.Event) -> None:
    async def script(driver: Driver) -> None:
        nothing = driver.plan.query_one("#nothing")
        assert not nothing.display
        await ask(driver)
        assert driver.text("#verdict").startswith(f"… opening  {SLOW}  0 s")
        await driver.until(lambda: nothing.display)
        assert nothing.border_title == f"Opening {SLOW}"
        assert "the Hub" in driver.text("#nothing")
        assert not driver.plan.query_one("#vram").display
        await driver.until(lambda: f"{SLOW}  1 s" in driver.text("#verdict"))
        await driver.press("escape")
        assert driver.plan.query_one("#vram").display
        assert not nothing.display

    drive(script)


def test_quitting_waits_for_nobody(hub: threading.Event) -> None:
    began = 0.0

    async def script(driver: Driver) -> None:
        nonlocal began
        await ask(driver)
        began = time.monotonic()
        await driver.pilot.press("q")
        await driver.until(lambda: not driver.app.is_running)

    drive(script)
    assert time.monotonic() - began < 20
    assert not hub.is_set()


def test_a_ranking_says_how_far_it_is_and_ends_once_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def recommend(*_: object, told: Callable[[int, int], None], **__: object) -> object:
        told(57, 344)
        goes_on.wait(60)
        try:
            told(58, 344)
        finally:
            ended.set()
        raise AssertionError("it was to end")

    monkeypatch.setattr("planner.tui.screens.recommend.recommend", recommend)

    async def script(driver: Driver) -> None:
        await driver.pilot.press("r")
        await driver.until(lambda: "57 of 344 models" in driver.text("#row"))
        bar, _, _ = driver.text("#no-rows").partition(" 57 of 344 models")
        share = bar.count("━") / len(bar)
        assert abs(share - 57 / 344) < 0.01
        await driver.press("escape")
        assert driver.app.screen is driver.plan
        goes_on.set()
        await driver.until(ended.is_set)

    drive(script)


def test_a_ranking_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    monkeypatch.setattr("planner.tui.screens.recommend.recommend", lambda *_, **__: waits.wait(60))

    async def script(driver: Driver) -> None:
        await driver.pilot.press("r")
        await driver.pilot.pause()
        assert driver.app.screen is not driver.plan
        await driver.press("escape")
        assert driver.app.screen is driver.plan
        assert driver.plan.settings == SMALL

    drive(script)
    waits.set()
