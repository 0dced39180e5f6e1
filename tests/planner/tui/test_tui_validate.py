"""The validate screen with a program that looks like vLLM: watched, cancelled, looked up later."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from program import Vplan
from test_tui_pictures import rehearsed, report  # noqa: F401 (a fixture)
from test_validate import CACHE, Fake
from textual.events import Paste
from textual.widgets import DataTable, RichLog
from tui_driver import SMALL, Driver, drive, screen_text

from hardware_db import find_rig
from model_cards import open_card
from planner import EngineConfig, plan_memory
from planner.launch.history import PastRun
from planner.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fake's processes need /proc")


@pytest.fixture
def fake(tmp_path: Path, vplan_here: Vplan, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, vplan_here, monkeypatch)


def on_fake(fake: Fake, **config: object) -> Settings:
    engine = EngineConfig(max_model_len=4096, kv_cache_memory_bytes=int(CACHE[1]), **config)  # type: ignore[arg-type]
    return replace(SMALL, gpu="cpu", model=str(fake.model), vllm="0.32.0", config=engine)


def picture(driver: Driver, name: str) -> None:
    folder = os.environ.get("VPLAN_PICTURES")
    if folder:
        (Path(folder) / f"{name}.svg").write_text(driver.app.export_screenshot(), "utf-8")


async def start(driver: Driver) -> None:
    """Open the screen, and start what it says will be run."""
    await driver.press("x")
    assert driver.text("#verdict").startswith("▸ ready"), driver.text("#verdict")
    picture(driver, "validate-ready")
    assert "loopback" in driver.text("#launch")
    await driver.pilot.press("s")
    await driver.until(lambda: "running" in driver.text("#verdict"))


async def reach(driver: Driver, words: str) -> None:
    await driver.until(lambda: words in driver.text("#verdict"))


def test_a_launch_is_watched_and_compared_with_its_plan(fake: Fake) -> None:
    async def script(driver: Driver) -> None:
        await start(driver)
        await reach(driver, "as planned")
        assert driver.text("#verdict").startswith("✔ as planned  all 6 terms")
        picture(driver, "validate-passed")
        verified = driver.text("#verified")
        assert ["KV", "tokens", "131,072", "exact", "131,072", "0", "✔"] in [
            line.split() for line in verified.splitlines()
        ]
        assert "4 requests answered" in verified
        log = "".join(line.text for line in driver.app.screen.query_one(RichLog).lines)
        assert "CPUKVcachesize:131,072tokens" in "".join(log.split())  # however it wraps
        assert os.environ["HF_TOKEN"] not in screen_text(driver.app)
        await driver.rest()
        table: DataTable[object] = driver.app.screen.query_one(DataTable)
        assert table.row_count == 1
        await driver.press("enter")
        assert driver.text("#verdict").startswith("✔ as planned, on ")
        await driver.press("escape")
        assert driver.app.screen is driver.plan

    drive(script, on_fake(fake))
    assert not fake.alive()


def test_what_fails_or_comes_out_otherwise_says_so_and_can_be_tried_again(fake: Fake) -> None:
    fake.ill("kv-room")

    async def script(driver: Driver) -> None:
        await start(driver)
        await reach(driver, "✘ failed")
        picture(driver, "validate-failed")
        assert "too little memory is left for the KV cache" in driver.text("#verdict")
        assert "try: --max-model-len 10752" in driver.text("#verified")
        fake.ill("")
        fake.monkeypatch.setenv("FAKE_TOKENS", "65536")
        await driver.pilot.press("s")
        await reach(driver, "▲ not as planned")
        assert "KV tokens" in driver.text("#verdict")
        assert "✘ NO" in driver.text("#verified")
        await driver.rest()
        table: DataTable[object] = driver.app.screen.query_one(DataTable)
        assert table.row_count == 2

    drive(script, on_fake(fake), size=(80, 24))
    assert not fake.alive()


def test_what_vllm_says_is_in_the_verdict(fake: Fake) -> None:
    fake.ill("refuses")

    async def script(driver: Driver) -> None:
        await start(driver)
        await reach(driver, "✘ failed")
        verdict = " ".join(driver.text("#verdict").split())
        assert "a setting; vLLM says: Model Runner V2 requires Triton, says ***." in verdict

    drive(script, on_fake(fake), size=(80, 24))


@pytest.mark.parametrize("ill", ["hang", "deaf", ""])
def test_it_can_be_cancelled_at_any_time_and_nothing_is_left(fake: Fake, ill: str) -> None:
    fake.ill(ill)

    async def script(driver: Driver) -> None:
        await start(driver)
        await driver.until(lambda: fake.started)
        picture(driver, "validate-running")
        driver.app.post_message(Paste("vllm serve Qwen/Qwen3-4B"))  # not now
        await driver.pilot.press("escape")
        await reach(driver, "cancelled" if ill else "")
        await driver.rest()
        assert not fake.alive()
        assert driver.plan.settings.model == str(fake.model)

    drive(script, on_fake(fake))
    assert not fake.alive()


def test_quitting_ends_the_server_first(fake: Fake) -> None:
    fake.ill("hang")

    async def script(driver: Driver) -> None:
        await start(driver)
        await driver.until(lambda: fake.started)
        await driver.pilot.press("q")
        await driver.until(lambda: not driver.app.is_running)
        assert not fake.alive()

    drive(script, on_fake(fake))


def test_what_cannot_be_run_here_is_said_and_nothing_is_started(fake: Fake) -> None:
    async def refused(driver: Driver) -> None:
        await driver.press("x")
        assert driver.text("#verdict").startswith("✘ would not start here")
        picture(driver, "validate-refused")
        await driver.press("s")
        assert driver.app.screen.running is False  # type: ignore[attr-defined]

    async def nowhere(driver: Driver) -> None:
        await driver.press("x")
        assert f"vllm serve {fake.model}" in driver.text("#launch")  # what would be run
        assert driver.text("#verdict").startswith("✘ cannot run here  ")
        assert "\n" not in driver.text("#verdict")
        await driver.press("s", "escape")
        assert driver.app.screen is driver.plan

    drive(refused, replace(on_fake(fake, tensor_parallel_size=2), gpu="2xrtx-4090"))
    fake.uninstall()
    fake.monkeypatch.setenv("PATH", str(fake.root))
    drive(nowhere, on_fake(fake))
    assert not fake.started


def test_past_validations_are_sorted_by_a_key_and_by_their_headings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = report("inside")
    past = [
        PastRun(Path(day), made.model_copy(update={"began": f"2026-04-{day}T12:00", "vllm": vllm}))
        for day, vllm in (("09", "0.9.0"), ("08", "0.33.0"), ("07", "0.10.1rc1"))
    ]
    monkeypatch.setattr("planner.tui.screens.validate.past_runs", lambda: iter(past))

    async def script(driver: Driver) -> None:
        await driver.press("x")
        table: DataTable[object] = driver.app.screen.query_one(DataTable)

        def releases() -> list[str]:
            return [str(table.get_row_at(row)[3]) for row in range(table.row_count)]

        assert releases() == ["0.9.0", "0.33.0", "0.10.1rc1"]
        await driver.press("o", "o", "o")
        assert releases() == ["0.9.0", "0.10.1rc1", "0.33.0"]
        for first in ("2026-04-07", "2026-04-09"):
            await driver.pilot.click(table, offset=(4, 1))
            await driver.rest()
            assert str(table.get_row_at(0)[0]).startswith(first)

    drive(script)


@pytest.mark.usefixtures("rehearsed")
def test_what_a_validation_takes_and_is_compared_with_is_said_before() -> None:
    """Weights of 16.4 GB: 15 to 150 s, 20 to 180 s to compile, 0.2 to 3 s a GB."""
    memory = plan_memory(open_card(SMALL.model, offline=True), find_rig("4090"), SMALL.config)
    held = memory.max_concurrency

    async def script(driver: Driver) -> None:
        await driver.press("x")
        assert "ready after some 38 to 379 s" in driver.text("#steps")
        assert "no earlier run" in " ".join(driver.text("#steps").split())
        planned = driver.text("#planned").splitlines()
        assert ["W█", "weights,", "GiB", "15.27", "exact"] in [line.split() for line in planned]
        row = next(line for line in planned if line.startswith("requests of 16,384 tokens"))
        assert f"{held.value:.1f}  [{held.low:.1f}-{held.high:.1f}]" in row
        # The runs before: the one that is pointed at is shown below.
        assert "4.70 GiB" in driver.text("#verified")
        await driver.press("down")
        assert "6.08 GiB" in driver.text("#verified")
        assert "✘ NO" in driver.text("#verified")

    drive(script, size=(200, 60))
