"""It never blocks: a model that takes its time is waited for, stopped, or left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

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
