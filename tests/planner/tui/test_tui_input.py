"""What people write, paste and open: each wrong thing is one clear line, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.events import Paste
from textual.widgets import Input, OptionList
from tui_driver import SMALL, Driver, copied, drive

from planner import EngineConfig, PlanError
from planner.engine_config import SpeculativeConfig
from planner.plan_file import read_plan, write_plan
from planner.tui.widgets.knob_row import KnobRow

_WRONG = {
    "vllm": ("9x", "0.1", "zzz"),
    "tensor_parallel_size": ("0", "-1", "two"),
    "use_case": ("poetry",),
    "concurrency": ("0", "99999999999999", "many"),
    "max_model_len": ("0", "1.5", "long", "-5"),
    "gpu_memory_utilization": ("0", "2", "half", "nan"),
    "max_num_seqs": ("0", "x"),
    "enforce_eager": ("perhaps",),
}


def test_wrong_input_is_refused_in_one_line_and_changes_nothing() -> None:
    async def script(driver: Driver) -> None:
        for knob, texts in _WRONG.items():
            for text in texts:
                await driver.focus(knob)
                row = driver.plan.query_one(f"#knob-{knob}", KnobRow)
                await driver.pilot.press("enter")
                row.query_one(Input).value = text
                await driver.pilot.press("enter")
                assert driver.text("#hint").startswith("✘ "), (knob, text)
                assert "\n" not in driver.text("#hint")
                assert driver.plan.settings == SMALL
                await driver.pilot.press("escape")
                assert not driver.text("#hint").startswith("✘ ")

    drive(script)


@pytest.mark.parametrize("text", ["4090x", "2x", "custom:", "rtx 9999", "8xh100+rope", "\x1b[31m"])
def test_a_gpu_that_is_none_says_so_while_it_is_typed(text: str) -> None:
    async def script(driver: Driver) -> None:
        await driver.press("g")
        driver.app.screen.query_one(Input).value = text
        await driver.rest()
        line = driver.text(".line")
        assert line
        assert "\x1b" not in line
        if not driver.app.screen.query_one(OptionList).option_count:
            await driver.press("enter")  # nothing to pick
        await driver.press("escape")
        assert driver.plan.settings == SMALL

    drive(script)


async def paste(driver: Driver, text: str) -> None:
    driver.app.post_message(Paste(text))
    await driver.pilot.pause()
    await driver.rest()


def test_a_pasted_command_opens_as_a_plan() -> None:
    async def script(driver: Driver) -> None:
        await paste(
            driver,
            "HF_TOKEN=hf_secret docker run --gpus all vllm/vllm-openai:v0.19.1 "
            "--model Qwen/Qwen3-14B \\\n --max-model-len 8k --kv-cache-dtype fp8 --enable-lora",
        )
        settings = driver.plan.settings
        assert (settings.model, settings.vllm) == ("Qwen/Qwen3-14B", "0.19.1")
        assert settings.config.max_model_len == 8000
        assert settings.config.enable_lora  # no knob for it, kept all the same
        assert settings.environ == ()
        assert "hf_secret" not in str(driver.app.export_screenshot())
        assert driver.text("#verdict").startswith("✘ does not start")
        await driver.press("u")
        assert driver.plan.settings == SMALL

    drive(script)


def test_the_release_stays_unless_the_command_names_one() -> None:
    async def script(driver: Driver) -> None:
        await paste(driver, "$ vllm serve Qwen/Qwen3-8B --max-model-len 8192")
        assert driver.plan.settings.vllm == "0.19.1"

    drive(script, replace(SMALL, vllm="0.19.1"))


def test_what_a_pasted_command_gets_wrong_is_said() -> None:
    async def script(driver: Driver) -> None:
        await paste(driver, "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --no-such-thing 3")
        assert "vLLM refuses one option" in driver.text("#hint")
        assert "--no-such-thing" in driver.text("#tab-why")
        for text in ("hello", "vllm serve", 'vllm serve "', "ls -l; rm -rf /", "\x00\x1b[2J"):
            before = driver.plan.settings
            await paste(driver, text)
            assert driver.text("#hint").startswith("✘ "), text
            assert driver.plan.settings == before

    drive(script)


def test_a_command_may_be_typed_too() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("p")
        driver.app.screen.query_one("TextArea").text = "vllm serve Qwen/Qwen3-4B"  # type: ignore[attr-defined]
        await driver.press("ctrl+s")
        assert driver.plan.settings.model == "Qwen/Qwen3-4B"

    drive(script)


def test_a_model_that_nobody_has_can_be_undone() -> None:
    async def script(driver: Driver) -> None:
        await driver.press("m")
        driver.app.screen.query_one(Input).value = "nobody/nothing"
        await driver.press("enter")
        assert driver.text("#verdict").startswith("✘ no plan")
        with copied(driver.app) as texts:
            await driver.press("c", "f")
        assert texts == []
        await driver.press("escape")
        assert driver.plan.settings == SMALL
        assert driver.text("#verdict").startswith("✔ starts")

    drive(script)


def test_a_folder_is_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}", "utf-8")

    async def script(driver: Driver) -> None:
        await driver.press("m")
        driver.app.screen.query_one(Input).value = f"{tmp_path}/"
        await driver.rest()
        assert driver.app.screen.query_one(OptionList).option_count == 1
        await driver.press("enter")
        assert driver.plan.settings.model == str(tmp_path / "tiny")
        assert driver.text("#verdict").startswith("✘ no plan")  # it says nothing of a model

    drive(script)


def test_a_plan_file_holds_every_setting(tmp_path: Path) -> None:
    settings = replace(
        SMALL,
        gpu="2x3090+nvlink",
        config=EngineConfig(
            tensor_parallel_size=2,
            gpu_memory_utilization=0.9,
            enforce_eager=True,
            speculative_config=SpeculativeConfig(
                "eagle3", 5, "a/b", num_speculative_tokens_per_batch_size=((1, 8, 5), (9, 64, 2))
            ),
        ),
        use_case="rag",
        concurrency=7,
        environ=(("VLLM_CPU_KVCACHE_SPACE", "4"),),
    )
    path = tmp_path / "plan.yaml"
    write_plan(path, settings)
    assert read_plan(path) == settings


@pytest.mark.parametrize(
    "text",
    ["", "[]", "vplan: 1", "vplan: 2\ngpu: a", "\x00", "a: [",
     "vplan: 1\ngpu: 4090\nmodel: a\nvllm: b",
     "{vplan: 1, gpu: a, model: b, vllm: c, settings: {no_such: 1}}",
     "{vplan: 1, gpu: a, model: b, vllm: c, settings: {max_model_len: long}}",
     "{vplan: 1, gpu: a, model: b, vllm: c, settings: {max_model_len: 0}}",
     "{vplan: 1, gpu: a, model: b, vllm: c, settings: {enforce_eager: 1}}",
     "{vplan: 1, gpu: a, model: b, vllm: c, settings: {speculative_config: 1}}",
     "{vplan: 1, gpu: a, model: b, vllm: c, concurrency: true}",
     "{vplan: 1, gpu: a, model: b, vllm: c, concurrency: 0}",
     "{vplan: 1, gpu: a, model: b, vllm: c, use_case: poetry}",
     "{vplan: 1, gpu: a, model: b, vllm: c, settings: [1]}"],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(PlanError) as caught:
        read_plan(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_or_written_are_one_line(tmp_path: Path) -> None:
    async def script(driver: Driver) -> None:
        for key, path in (
            ("ctrl+o", tmp_path / "no.yaml"),
            ("ctrl+s", tmp_path / "no" / "no.yaml"),
        ):
            await driver.press(key)
            driver.app.screen.query_one(Input).value = str(path)
            await driver.press("enter")
            assert driver.text("#hint").startswith("✘ Cannot ")
        assert driver.plan.path is None

    drive(script)
