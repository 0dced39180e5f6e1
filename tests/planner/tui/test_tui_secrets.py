"""No key is on any screen, nor in a picture that is saved of it."""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Iterator

import pytest
from test_secrets import KEY, LOG, PASSWORD, PLAIN, SECRETS, TOKEN, URL
from test_tui_pictures import Rehearsed, rehearsed  # noqa: F401 (a fixture)
from textual.events import Paste
from tui_driver import SMALL, Driver, copied, drive, screen_text

from model_cards import UnknownModel
from planner.command.secrets import _known
from planner.launch.progress import Asking, Logged

PASTED = (
    f"HF_TOKEN={TOKEN} VLLM_API_KEY={PLAIN} vllm serve Qwen/Qwen3-8B --max-model-len 4096 "
    f"--api-key {KEY} --hf-token {TOKEN} --no-such-option {KEY}"
)
Script = Callable[[Driver], Awaitable[None]]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    _known.cache_clear()
    yield
    _known.cache_clear()


def look(driver: Driver) -> str:
    """What is on the screen; fails if a key is on it, or in its picture."""
    text, svg = screen_text(driver.app), driver.app.export_screenshot()
    drawn = html.unescape(svg).replace("\xa0", " ")
    for secret in SECRETS:
        assert secret not in text.replace("\n", "")
        assert secret not in text
        assert secret not in drawn
    return text


async def drop(driver: Driver, text: str) -> None:
    driver.app.post_message(Paste(text))
    await driver.rest()


async def plan(driver: Driver) -> None:
    await drop(driver, PASTED)
    assert "4,096" in look(driver)
    with copied(driver.app) as texts:
        for _ in range(8):
            await driver.press("e")
            look(driver)
            await driver.press("c")
    assert texts
    assert not any(secret in text for secret in SECRETS for text in texts)
    for _ in range(5):
        await driver.press("v")
        look(driver)


async def wrong_input(driver: Driver) -> None:
    for text in (f"vllm serve --api-key {KEY}", f"{URL}/model", f"vllm serve {URL}", KEY):
        await drop(driver, text)
        look(driver)
    await driver.focus("vllm")
    await driver.press("enter")
    driver.app.focused.insert_text_at_cursor(TOKEN)  # type: ignore[union-attr]
    await driver.rest()
    assert TOKEN not in driver.text("#hint")


async def diagnosis(driver: Driver) -> None:
    await drop(driver, LOG)
    assert "Log pasted text" in look(driver)
    await driver.press("pagedown")
    look(driver)
    await driver.press("enter")
    look(driver)


@pytest.mark.parametrize("script", [plan, wrong_input, diagnosis], ids=lambda each: each.__name__)
def test_none_of_what_was_pasted_or_dropped(script: Script) -> None:
    drive(script, SMALL, (200, 60))


def test_not_even_where_the_hub_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise UnknownModel(f"401 for {URL} with Bearer {PLAIN} and {TOKEN}")

    monkeypatch.setattr("planner.tui.library.open_card", refuse)

    async def script(driver: Driver) -> None:
        assert "no plan" in look(driver)

    drive(script)


def test_not_in_what_a_validation_runs_and_logs(
    rehearsed: type[Rehearsed],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = [*map(Logged, LOG.splitlines()), Asking(f"POST {URL} with {KEY}")]
    began = Rehearsed.__init__

    def begin(run: Rehearsed, preflight: object) -> None:
        began(run, preflight)  # type: ignore[arg-type]
        run.told += told

    monkeypatch.setattr(Rehearsed, "__init__", begin)

    async def script(driver: Driver) -> None:
        await drop(driver, PASTED)
        await driver.press("x")
        assert "What is run" in look(driver)
        await driver.pilot.press("s")
        await driver.until(lambda: "POST" in driver.text("#course"))
        await driver.still()
        assert "ValueError" in look(driver)
        rehearsed.outcome = "failed"
        await driver.until(lambda: "failed" in driver.text("#verdict"))
        await driver.rest()
        look(driver)

    drive(script, SMALL, (200, 60))


def test_there_is_something_to_be_found() -> None:
    assert all(secret in LOG + PASTED + URL for secret in (TOKEN, KEY, PLAIN, PASSWORD))
