"""Every state at every size: nothing is cut off that cannot be scrolled to, and all is said.

With VPLAN_PICTURES=FOLDER each is written there as SVG, to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace
from textual.widgets import DataTable, Static
from tui_driver import SIZES, SMALL, Driver, drive, screen_text

from planner import EngineConfig
from planner.settings import Settings
from planner.tui.widgets.knob_row import KnobRow


class State(Struct, frozen=True):
    """How to get there, and what is then to be read in the picture."""

    settings: Settings
    keys: tuple[str, ...]
    says: tuple[str, ...]


def model(name: str, gpu: str = "rtx-4090", vllm: str = "0.33.0", **config: object) -> Settings:
    return Settings(gpu, name, vllm, EngineConfig(**config))  # type: ignore[arg-type]


STATES = {
    "starts": State(SMALL, (), ("starts", "chance of refusal: under 1 %", "KV cache", "tok/s")),
    "risky": State(model("Qwen/Qwen3-8B", max_model_len=32768), (), ("may not start",)),
    "does-not-fit": State(model("Qwen/Qwen3-8B"), (), ("does not start", "--max-model-len")),
    "far-too-large": State(
        model("Qwen/Qwen3-32B"),
        (),
        ("42.53 GiB too much", "--max-model-len 10112", "the GPU ends here", "it does not start"),
    ),
    "refused": State(
        model("Qwen/Qwen3-8B", "8xrtx-3090", "0.19.1", tensor_parallel_size=3),
        (),
        ("must be divisible", "no budget"),
    ),
    "unknown-model": State(model("nobody/nothing"), (), ("no plan", "Unknown model")),
    "bad-gpu": State(replace(SMALL, gpu="rtx-9999"), (), ("no plan", "Unknown GPU")),
    "writing": State(SMALL, ("down", "down", "down", "9", "x"), ("is no vLLM version",)),
    "picking": State(SMALL, ("m", "g", "p", "t"), ("openai/gpt-oss", "enter picks")),
    "picking-a-gpu": State(SMALL, ("g", *"2x3090"), ("2xrtx-3090", "23.56")),
    "recommend": State(SMALL, ("r",), ("Recommend", "tier", "quality", "⏎ open")),
    "help": State(SMALL, ("question_mark",), ("Keys", "turn it one step")),
    "paste": State(SMALL, ("p",), ("Paste a command",)),
    "why": State(SMALL, ("w",), ("Terms of the budget", "exact")),
    "command": State(SMALL, ("v", "v", "v"), ("vllm serve", "--max-model-len 16384")),
    "compose": State(SMALL, ("e", "e", "e"), ("[compose]", "image: vllm/vllm-openai:v0.33.0")),
    "speed": State(SMALL, ("v",), ("Speed by concurrency", "tok/s together", "roof")),
    "speculation": State(SMALL, ("v", "v"), ("times as fast", "eagle3", "use dflash")),
    "light": State(SMALL, ("t",), ("starts",)),
}  # fmt: skip


def picture(driver: Driver, name: str) -> str:
    """The text of the screen as it is drawn."""
    folder = os.environ.get("VPLAN_PICTURES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.svg").write_text(driver.app.export_screenshot(), "utf-8")
    return screen_text(driver.app)


@pytest.mark.parametrize("size", SIZES[::2], ids=str)  # test_tui_pictures has the one between
@pytest.mark.parametrize("name", STATES)
def test_a_state_says_what_it_is(name: str, size: tuple[int, int]) -> None:
    state = STATES[name]

    async def script(driver: Driver) -> None:
        if state.keys:
            await driver.press(*state.keys)
        drawn = picture(driver, f"{name}-{size[0]}x{size[1]}")
        words = " ".join(drawn.split())
        for each in state.says:
            assert each in words, f"{each!r} is not in\n{drawn}"
        if driver.app.screen is driver.plan:
            assert "quit" in drawn or name == "writing"  # the last of the keys
            whole(driver)

    drive(script, state.settings, size)


def whole(driver: Driver) -> None:
    """What is always in sight is whole; what is not can be scrolled to."""
    screen = driver.plan
    verdict = screen.query_one("#verdict", Static)
    assert verdict.region.height >= verdict.virtual_size.height
    for part in (*screen.query(KnobRow), *screen.query(".card")):
        if part.display and part.region.area:
            assert part.region.right <= screen.size.width


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_every_knob_can_be_reached_and_is_then_in_sight(size: tuple[int, int]) -> None:
    async def script(driver: Driver) -> None:
        for _ in range(15):
            await driver.pilot.press("down")
            row = driver.app.focused
            assert isinstance(row, KnobRow)
            assert driver.app.screen.region.contains_region(row.region)

    drive(script, size=size)


def test_a_terminal_resized_below_a_dialog_is_drawn_anew() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("?")
        await driver.pilot.resize_terminal(80, 24)
        await driver.rest()
        await driver.press("escape")
        assert driver.plan.has_class("-narrow")
        assert not driver.plan.has_class("-wide")
        assert (
            driver.plan.query_one("#knobs").region.width
            == driver.plan.query_one("#body").region.width - 1
        )

    drive(script, size=(200, 60))


def test_a_resized_terminal_is_drawn_anew() -> None:
    async def script(driver: Driver) -> None:
        await driver.pilot.resize_terminal(80, 24)
        await driver.rest()
        assert "starts" in picture(driver, "resized")
        whole(driver)
        await driver.press("r")
        await driver.pilot.resize_terminal(200, 60)
        await driver.rest()
        table: DataTable[object] = driver.app.screen.query_one(DataTable)
        assert len(table.columns) == 11

    drive(script, size=(200, 60))
