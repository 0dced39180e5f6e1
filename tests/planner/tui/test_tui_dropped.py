"""What is dropped or pasted: logs open as a diagnosis, plan files as plans."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import pytest
from launch_logs import Said, cuda_log
from msgspec.structs import replace
from textual.events import Paste
from textual.widgets import Button, Input
from tui_driver import SMALL, Driver, drive, screen_text

from hardware_db import find_rig
from model_cards import open_card
from planner import EngineConfig, PlanError, plan_memory
from planner.memory.verdict import Answer
from planner.plan_file import read_plan, write_plan
from planner.tui.dropped import OpenedLog, OpenedPlan, Pasted, read_dropped
from planner.tui.library import Library
from planner.tui.outcome import judge
from planner.tui.screens.diagnosis import DiagnosisScreen

FAILED = """\
(APIServer pid=6) INFO 04-09 23:58:00 [api_server.py:1] vLLM API server version 0.19.1
(EngineCore pid=7) INFO 04-09 23:58:01 [core.py:1] Initializing a V1 LLM engine (v0.19.1) with \
config: model='Qwen/Qwen3-8B', max_seq_len=40960, tensor_parallel_size=1,
ValueError: To serve at least one request with the model's max seq len (40960), (5.63 GiB KV \
cache is needed, which is larger than the available KV cache memory (4.12 GiB). Based on the \
available memory, the estimated maximum model length is 30000.
"""


async def drop(driver: Driver, text: str) -> None:
    driver.app.post_message(Paste(text))
    await driver.pilot.pause()
    await driver.rest()


@pytest.mark.parametrize("written", [str, lambda path: quote(str(path)), Path.as_uri])
def test_a_file_is_found_however_the_terminal_writes_its_name(
    tmp_path: Path, written: object
) -> None:
    log, plan = tmp_path / "a log of mine.txt", tmp_path / "plan.yml"
    log.write_text("\n".join(cuda_log("0.33.0", Said())), "utf-8")
    write_plan(plan, SMALL)
    library = Library(offline=True)
    opened = read_dropped(f" {written(log)} ", SMALL, library)  # type: ignore[operator]
    assert isinstance(opened, OpenedLog)
    assert opened.launches[-1].kv_tokens == Said().tokens
    found = read_dropped(written(plan), replace(SMALL, model="other"), library)  # type: ignore[operator]
    assert found == OpenedPlan(SMALL, plan)


def test_what_is_neither_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of vLLM", "utf-8")
    for text in (str(tmp_path / "notes.txt"), str(tmp_path), "~nobody/x", "~", "'", "a\nb", "\0"):
        with pytest.raises(PlanError) as caught:
            read_dropped(text, SMALL, Library(offline=True))
        assert "\n" not in str(caught.value)


def test_a_dropped_log_is_diagnosed_and_opens_as_a_plan(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("\n".join([*cuda_log("0.33.0", Said()), FAILED]), "utf-8")

    async def script(driver: Driver) -> None:
        await drop(driver, str(log))
        assert isinstance(driver.app.screen, DiagnosisScreen)
        assert "start 2 of 2" in driver.text("#title")
        verdict = driver.text("#verdict")
        assert verdict.startswith("✘ failed  too little memory is left for the KV cache")
        assert "try: --max-model-len 30000" in driver.text("#log-failure")
        # The pool came out at 4.12 GiB of 144 KiB a token: 29,999, and less with room to spare.
        tried = driver.text("#log-fixes").splitlines()
        length = next(line for line in tried if line.startswith("--max-model-len "))
        assert 20_000 < int(length.split()[1]) < 30_000
        assert any(line.startswith("--kv-cache-dtype fp8") for line in tried)
        assert "4.12 GiB" in driver.text("#log-end")
        assert "--max-model-len 40960" in driver.text("#log-command")
        assert "· ready" in " ".join(driver.text("#log-course").split())
        await driver.press("left")
        assert not driver.app.screen.query_one("#log-fixes").display
        assert "sk-secret" not in driver.text("#log-end")
        assert driver.text("#verdict").startswith("✔ served")
        memory = driver.text("#log-memory")
        for part in ("14.99 GiB", "1.23 GiB", "54.12 GiB"):
            assert part in memory
        assert "443,328 tokens" in driver.text("#log-served")
        await driver.press("right", "enter")
        assert driver.app.screen is driver.plan
        settings = driver.plan.settings
        assert (settings.model, settings.vllm) == ("Qwen/Qwen3-8B", "0.19.1")
        assert settings.config.max_model_len == 40960
        assert driver.text("#verdict").startswith("✘ does not start")

    drive(script)


def test_a_log_stands_beside_the_plan_for_this_hardware() -> None:
    said = Said(weights=15.27, activation=9.0)
    text = "\n".join(cuda_log("0.33.0", said)).replace("org/model", "Qwen/Qwen3-8B")
    config = EngineConfig(max_model_len=said.length)
    plan = plan_memory(open_card("Qwen/Qwen3-8B", offline=True), find_rig("h100-sxm"), config)

    async def script(driver: Driver) -> None:
        await drop(driver, text)
        terms = {line[:15].strip(): line for line in driver.text("#log-terms").splitlines()}
        assert "15.27 GiB" in terms["weights"]
        assert terms["weights"].endswith("✔")
        assert f"{plan.tightest.activation.value / 2**30:.2f} GiB" in terms["activation peak"]
        assert "9.00 GiB" in terms["activation peak"]
        assert terms["activation peak"].endswith("✘ NO")
        assert not driver.app.screen.query_one("#log-fixes").display  # it served

    drive(script, replace(SMALL, gpu="h100-sxm"))


def test_a_log_may_be_pasted_or_opened_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(FAILED, "utf-8")

    async def script(driver: Driver) -> None:
        await drop(driver, FAILED)
        assert "pasted text" in driver.text("#title")
        await driver.press("escape", "ctrl+o")
        driver.app.screen.query_one(Input).value = str(tmp_path / "server.log")
        await driver.press("enter")
        assert "✘ failed" in screen_text(driver.app)
        await driver.press("escape")
        assert driver.plan.settings == SMALL

    drive(script, size=(80, 24))


def test_another_file_is_not_lost_without_asking(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("somebody's", "utf-8")

    async def save(driver: Driver, *keys: str) -> None:
        await driver.press("ctrl+s")
        driver.app.screen.query_one(Input).value = str(path)
        await driver.press("enter", *keys)

    async def script(driver: Driver) -> None:
        for keys in (("escape",), ("n",), ("enter",)):  # enter alone is no answer
            await save(driver, *keys)
            assert path.read_text("utf-8") == "somebody's"
            assert driver.app.screen is driver.plan
        await save(driver)
        assert isinstance(driver.app.focused, Button)
        await driver.press("y")
        assert read_plan(path) == SMALL
        await driver.focus("concurrency")
        await driver.press("right", "ctrl+s")  # its own file is not asked about again
        assert read_plan(path).concurrency == 2

    drive(script)


@pytest.mark.parametrize(
    ("variables", "length", "answer"),
    [
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", 50000, Answer.YES),
        ("", 50000, Answer.NO),
        ("VLLM_USE_V2_MODEL_RUNNER=0 MY_KEY=secret", 4096, Answer.YES),
    ],
)
def test_variables_that_change_a_plan_are_kept(variables: str, length: int, answer: Answer) -> None:
    """As `vplan check` judges the same command; no others, which may be secrets."""
    library = Library(offline=True)
    text = f"{variables} vllm serve Qwen/Qwen3-0.6B --max-model-len {length}"
    opened = read_dropped(text, replace(SMALL, gpu="h100-sxm"), library)
    assert isinstance(opened, Pasted)
    kept = dict(opened.settings.environ)
    assert [*kept] == [name for name in variables.split("=")[:1] if name]
    outcome = judge(opened.settings, library.open(opened.settings))
    assert outcome.answer is answer
    if variables.startswith("VLLM_USE_V2_MODEL_RUNNER=0"):
        assert outcome.memory is not None
        assert not outcome.memory.config.model_runner_v2
