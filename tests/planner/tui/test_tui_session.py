"""The last session: where it ended is where the next one begins, whatever became of its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from test_tui_start import on_terminal
from tui_driver import SMALL, Driver, drive

from planner.plan_file import read_plan
from planner.tui.session import keep, restore, session_file


def test_what_was_turned_is_there_again() -> None:
    async def script(driver: Driver) -> None:
        await driver.focus("max_model_len")
        await driver.press("left")
        await driver.press("escape")

    drive(script)
    settings, line = restore()
    assert line == ""
    assert settings is not None
    assert settings.config.max_model_len == 8192


def test_what_was_turned_a_moment_before_the_end_is_there_too() -> None:
    async def script(driver: Driver) -> None:
        await driver.focus("max_model_len")
        await driver.send("left", "q")

    drive(script)
    settings, _ = restore()
    assert settings is not None
    assert settings.config.max_model_len == 8192


def test_nothing_is_restored_where_nothing_was() -> None:
    assert restore() == (None, "")


@pytest.mark.parametrize("text", ["", "vplan: 7\n", "\x00\xff", "vplan: 1\ngpu: [1]\n"])
def test_a_file_that_cannot_be_read_is_set_aside(text: str) -> None:
    session_file().parent.mkdir(parents=True)
    session_file().write_text(text, "utf-8")
    settings, line = restore()
    assert settings is None
    assert "could not be read" in line
    (left,) = session_file().parent.iterdir()
    assert left.read_text("utf-8") == text
    assert restore() == (None, "")
    keep(SMALL)
    assert restore() == (SMALL, "")


def test_a_folder_that_cannot_be_written_keeps_nobody_from_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    keep(SMALL)
    assert restore() == (None, "")


def test_the_program_begins_where_it_ended_unless_told_otherwise() -> None:
    keep(replace(SMALL, model="Qwen/Qwen3-4B", gpu="rtx-3090"))
    for arguments, model in (
        ((), "Qwen3-4B"),
        (("--fresh",), "Qwen3-8B"),
        (("--gpu", "4090"), "Qwen3-8B"),
    ):
        held = read_plan(session_file())
        status, shown = on_terminal("tui", *arguments, term="xterm-256color")
        assert status == 0
        assert f"Qwen/{model}" in shown
        keep(held)


def test_hardware_that_is_gone_is_said_on_the_screen() -> None:
    keep(replace(SMALL, gpu="auto"))  # there is none where the tests run
    status, shown = on_terminal("tui", term="xterm-256color", seen=b"no plan")
    assert status == 0
    assert "\x1b[?1049l" in shown
