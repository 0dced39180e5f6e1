"""The whole path, by keyboard alone: from nothing to a saved plan, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui_driver import SMALL, Driver, copied, drive

from planner.plan_file import read_plan
from planner.settings import Settings


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_from_nothing_to_a_saved_plan_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "plan.yaml"
    texts: list[str] = []
    left: list[Settings] = []

    async def plan(driver: Driver) -> None:
        await driver.press("g")
        await driver.type("2x3090")
        await driver.press("enter")
        assert driver.value("gpu") == "2xrtx-3090"
        await driver.press("m")
        await driver.type("qwen3-14b")
        await driver.press("enter")
        assert driver.plan.settings.model == "Qwen/Qwen3-14B"

        await driver.focus("max_model_len")
        await driver.press("4", "0", "9", "6", "enter")
        await driver.focus("tensor_parallel_size")
        await driver.press("left")
        assert driver.text("#verdict").startswith("✘ does not start")  # 28 GiB on one of 24
        await driver.press("right")
        await driver.focus("max_model_len")
        for _ in range(10):
            if "✘" in driver.text("#verdict"):
                break
            await driver.press("right")
        await driver.focus("gpu_memory_utilization")
        await driver.type("0.75")
        await driver.press("enter")
        assert "does not start" in driver.text("#verdict")
        assert "of KV cache on each GPU" in driver.text("#verdict")
        await driver.press("w")
        assert "error: one request of" in driver.text("#tab-why")

        assert "apply --" in driver.text("#verdict")
        await driver.press("f")
        assert driver.text("#verdict").startswith("✔ starts")
        with copied(driver.app) as copies:
            await driver.press("c")
            texts.extend(copies)
        await driver.press("ctrl+s")
        await driver.press("enter")  # the name that is offered
        left.append(driver.plan.settings)
        await driver.pilot.press("q")
        await driver.until(lambda: not driver.app.is_running)

    async def again(driver: Driver) -> None:
        assert driver.plan.settings == left[0]
        assert driver.text("#verdict").startswith("✔ starts")
        with copied(driver.app) as copies:
            await driver.press("c")
        assert copies == texts

    drive(plan, size=size)
    assert texts[0].startswith("vllm serve Qwen/Qwen3-14B \\\n  --tensor-parallel-size 2")
    assert read_plan(target) == left[0]
    drive(again, read_plan(target), size, target)


def test_undo_and_redo_go_through_every_change() -> None:
    async def script(driver: Driver) -> None:
        await driver.focus("max_model_len")
        seen = [driver.plan.settings]
        for _ in range(2):
            await driver.press("left")
            seen.append(driver.plan.settings)
        await driver.press("u", "ctrl+z")
        assert driver.plan.settings == seen[0]
        assert driver.value("max_model_len") == "16,384"
        await driver.press("U", "ctrl+y")
        assert driver.plan.settings == seen[2]
        assert driver.value("max_model_len") == "4,096"

    drive(script)


def test_a_row_of_the_ranking_opens_with_the_settings_it_was_ranked_with() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("r")
        await driver.press("u", "down", "enter")
        settings = driver.plan.settings
        assert settings.use_case == "code"
        assert settings.model != SMALL.model
        assert settings.config.max_model_len is not None
        assert driver.text("#verdict").startswith("✔ starts")
        await driver.press("r", "escape")
        assert driver.plan.settings == settings

    drive(script)


def test_every_knob_turns_and_takes_its_own_text() -> None:
    async def script(driver: Driver) -> None:
        for knob in ("vllm", "concurrency", "kv_cache_dtype", "use_case", "enforce_eager",
                     "max_num_seqs", "max_num_batched_tokens", "gpu", "checkpoint"):  # fmt: skip
            before = driver.plan.settings
            await driver.focus(knob)
            await driver.press("left" if knob == "vllm" else "right")
            assert driver.plan.settings != before, knob
            if knob in ("gpu", "checkpoint"):
                continue
            await driver.press("enter")
            await driver.press("enter")  # what stands there can be written
            assert driver.app.focused is not None
            assert driver.app.focused.id == f"knob-{knob}"

    drive(script)
