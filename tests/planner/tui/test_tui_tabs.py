"""The tabs: drafts that pay, speed by concurrency, the command in other formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.widgets import Input
from tui_driver import SMALL, Driver, copied, drive

from planner import EngineConfig, plan_memory, predict_speed
from planner.command.exports import FORMATS, export
from planner.engine_config import SpeculativeConfig
from planner.speed.roofline import roofline
from planner.speed.speculation_choice import choose_speculation
from planner.tui.knobs import groups
from planner.tui.library import Library
from planner.tui.widgets.speculation_panel import SpeculationPanel

MANY = replace(SMALL, gpu="h100-sxm", concurrency=4)


def test_the_drafts_that_pay_are_those_of_the_library_and_one_key_takes_them() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("v", "v")
        plain = driver.plan.outcome
        assert plain is not None
        assert plain.memory is not None
        choice = choose_speculation(plain.memory, MANY.workload)
        panel = driver.plan.query_one(SpeculationPanel)
        assert panel.choice is not None
        shown = [(each.name, each.gain, each.break_even) for each in panel.choice.options]
        assert shown == [(each.name, each.gain, each.break_even) for each in choice.options]
        assert choice.chosen is not None
        text = driver.text("#tab-speculation")
        for option in choice.options:
            assert option.kind in text
        await driver.press("d")
        given = driver.plan.settings.config.speculative_config
        assert given == choice.chosen.config
        outcome = driver.plan.outcome
        assert outcome is not None
        assert outcome.speed is not None
        assert plain.speed is not None
        assert outcome.speed.per_user.value > plain.speed.per_user.value
        assert "draft" in driver.text("#speed-card")
        assert "starts" in driver.text("#tab-capacity")  # swept with its draft
        await driver.press("u")
        assert driver.plan.settings == MANY

    drive(script, MANY, (200, 60))


def test_speed_by_concurrency_is_what_the_library_predicts() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("v")
        lines = [line.split() for line in driver.text("#tab-speed").splitlines()]
        outcome = driver.plan.outcome
        assert outcome is not None
        assert outcome.memory is not None
        for requests in (1, 4, 64):
            speed = predict_speed(outcome.memory, replace(MANY.workload, concurrency=requests))
            line = next(each for each in lines if str(requests) in each[:2])
            assert f"{speed.total.value:,.0f}" in line
            assert f"{speed.per_user.value:.0f}" in line

    drive(script, MANY)


def test_no_speed_is_above_its_roof_and_the_roofs_meet_where_bytes_and_operations_do() -> None:
    inputs = Library(offline=True).open(MANY)
    memory = plan_memory(inputs.card, inputs.rig, MANY.config, vllm=inputs.release)
    points = roofline(memory, MANY.workload, [1, 8, 64, 256])
    for point in points:
        if point.speed.admitted >= point.concurrency:
            assert point.speed.total.value < point.roof
    # 8.19e9 parameters less the embedding, read once a step at 3,350 GB/s for one request.
    weights = memory.tightest.weights.value - 151_936 * 4096 * 2
    assert points[0].reading == pytest.approx(3.35e12 / weights, rel=0.02)
    # About 989 TFLOP/s over two operations for each parameter that a token meets.
    assert points[0].computing == pytest.approx(989e12 / (2 * weights / 2), rel=0.05)


def test_the_command_is_copied_and_saved_in_the_format_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"

    async def script(driver: Driver) -> None:
        outcome = driver.plan.outcome
        assert outcome is not None
        assert outcome.memory is not None
        with copied(driver.app) as texts:
            for _ in FORMATS:
                await driver.press("c", "e")
        expected = [export(outcome.memory, name) for name in FORMATS]
        assert texts[1:] == expected[1:]
        assert texts[0] == outcome.command_text
        await driver.press("e", "e", "e", "ctrl+e")
        line = driver.app.screen.query_one(Input)
        assert line.value == "compose.yaml"
        line.value = str(path)
        await driver.press("enter")
        assert path.read_text("utf-8") == expected[list(FORMATS).index("compose")]
        assert driver.plan.path is None  # it is no plan file

    drive(script)


_SPECULATION = {each.key: each for _, knobs in groups() for each in knobs}["speculation"]


@pytest.mark.parametrize(
    ("text", "config"),
    [("none", None), ("", None), ("ngram", SpeculativeConfig("ngram", 3)),
     ("ngram 5", SpeculativeConfig("ngram", 5)),
     ("eagle3 2 AngelSlim/Qwen3-8B_eagle3",
      SpeculativeConfig("eagle3", 2, "AngelSlim/Qwen3-8B_eagle3")),
     ("eagle3 8 RedHatAI/Qwen3-8B-speculator.peagle",
      SpeculativeConfig("eagle3", 8, "RedHatAI/Qwen3-8B-speculator.peagle",
                        parallel_drafting=True))],
)  # fmt: skip
def test_speculation_is_typed_as_method_tokens_and_draft(
    text: str, config: SpeculativeConfig | None
) -> None:
    changed = _SPECULATION.write(SMALL, text)
    assert changed.config == EngineConfig(max_model_len=16384, speculative_config=config)
    assert _SPECULATION.write(changed, _SPECULATION.text(changed)) == changed


def test_speculation_is_picked_from_a_list_and_turned_with_the_arrows() -> None:
    async def script(driver: Driver) -> None:
        await driver.focus("speculation")
        await driver.press("right")
        first = driver.plan.settings.config.speculative_config
        assert first is not None
        await driver.press("left")
        assert driver.plan.settings == MANY
        await driver.press("enter", *"ngram", "space", "4", "enter")
        assert driver.plan.settings.config.speculative_config == SpeculativeConfig("ngram", 4)
        assert driver.value("speculation") == "ngram, 4 tok."
        await driver.press("enter", *"zzz", "escape")
        await driver.press("enter", *"eagle3", "space", "3", "enter")  # no draft: vLLM refuses
        assert driver.text("#verdict")[:1] in "✘✔"

    drive(script, MANY)
