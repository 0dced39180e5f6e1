"""`vplan tui` and plain `vplan`: on a terminal, in a pipe, on a terminal that cannot draw."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest
from program import EXECUTABLE, environment, vplan


def on_terminal(
    *arguments: str, term: str, keys: bytes = b"q", seen: bytes = b"starts"
) -> tuple[int, str]:
    """Run on a terminal of 80 x 24 until it ends; keys are sent once `seen` was drawn."""
    ours, theirs = pty.openpty()
    variables = environment(TERM=term, LINES="24", COLUMNS="80")
    run = subprocess.Popen(
        [EXECUTABLE, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=variables
    )
    os.close(theirs)
    shown, end, sent = b"", time.monotonic() + 60, False
    while time.monotonic() < end and run.poll() is None:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # closed at the other end
                break
        if not sent and seen in shown:
            os.write(ours, keys)
            sent = True
    status = run.wait(timeout=30)
    os.close(ours)
    return status, shown.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "arguments", [(), ("tui",), ("tui", "--gpu", "2x3090", "-m", "Qwen/Qwen3-4B")]
)
def test_a_terminal_is_drawn_on_and_left_as_it_was(arguments: tuple[str, ...]) -> None:
    status, shown = on_terminal(*arguments, term="xterm-256color")
    assert status == 0
    assert "\x1b[?1049h" in shown
    assert "\x1b[?1049l" in shown
    assert "Traceback" not in shown


def test_a_terminal_that_cannot_draw_is_told_so_in_one_line() -> None:
    status, shown = on_terminal("tui", term="dumb")
    assert status == 2
    assert shown.strip().startswith("vplan: vplan tui needs a terminal")
    assert shown.strip().count("\n") == 0


def test_a_pipe_gets_the_help_or_one_line() -> None:
    assert vplan().err.startswith("Usage: vplan")
    run = vplan("tui")
    assert run.status == 2
    assert run.out == ""
    assert run.err.startswith("vplan: vplan tui needs a terminal")
    assert run.err.count("\n") == 1


def test_what_it_is_started_with_is_checked_before_the_screen_is_taken(tmp_path: Path) -> None:
    for arguments in (("--gpu", "rtx9999"), (str(tmp_path / "no.yaml"),), ("--vllm-version", "x")):
        status, shown = on_terminal("tui", *arguments, term="xterm-256color")
        assert status == 2
        assert "\x1b[?1049h" not in shown
        assert shown.startswith("vplan: ")
