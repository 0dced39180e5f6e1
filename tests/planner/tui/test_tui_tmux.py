"""In tmux, as people have it: 80 x 24, keys by name, what the terminal shows."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import EXECUTABLE, environment

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not here")
_PATIENCE = 60.0


class Terminal:
    """A tmux server of its own, with one pane."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self._state = folder / "state"

    def run(self, *arguments: str, term: str = "", size: tuple[int, int] = (80, 24)) -> None:
        """Run vplan in a shell that stays when it has ended, and tells its exit status."""
        program = shlex.join([str(EXECUTABLE), *arguments])
        prefix = f"TERM={term} " if term else ""
        shell = f'{prefix}{program}; echo "status $?"; exec sleep 600'
        width, height = map(str, size)
        self._tmux("new-session", "-d", "-x", width, "-y", height, "sh", "-c", shell)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def until(self, words: str, without: str = "\0") -> str:
        """What the terminal shows once the words are there, and others are not."""
        end = time.monotonic() + _PATIENCE
        while words not in (shown := self.text()) or without in shown:
            assert time.monotonic() < end, f"no {words!r} in\n{shown}"
            time.sleep(0.05)
        return shown

    def close(self) -> None:
        self._tmux("kill-server", check=False)
        self._socket += "+"  # the server may still hold the one that it had

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        variables = environment(TERM="xterm-256color", XDG_STATE_HOME=str(self._state))
        del variables["COLUMNS"]  # the pane says it
        run = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments],
            env=variables, capture_output=True, text=True, check=check,
        )  # fmt: skip
        return run.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def test_it_is_planned_in_a_small_pane_by_keys_alone(terminal: Terminal) -> None:
    terminal.run("tui", "--fresh", "--offline")
    shown = terminal.until("✔ starts")
    assert "Qwen/Qwen3-8B" in shown
    assert "q quit" in shown
    assert len(shown.splitlines()) == 24
    assert max(map(len, shown.splitlines())) <= 80
    terminal.press("m")
    terminal.until("escape cancels")
    terminal.press("-l", "qwen3-32b")
    terminal.press("Enter")
    terminal.until("does not start")
    terminal.until("f  apply")
    terminal.press("f")
    terminal.until("✔ starts")
    terminal.press("?")
    terminal.until("escape closes")
    terminal.press("Escape")
    terminal.until("✔ starts", without="escape closes")  # Escape and a key at once would be Alt
    terminal.press("u")
    terminal.until("does not start")
    terminal.paste("vllm serve Qwen/Qwen3-4B --max-model-len 4096")
    terminal.until("Qwen/Qwen3-4B")
    terminal.until("✔ starts")
    terminal.resize(120, 40)
    terminal.until("Hardware and model")
    terminal.press("q")
    terminal.until("status 0")


def test_a_session_is_there_again(terminal: Terminal) -> None:
    terminal.run("tui", "--offline", "--gpu", "2x3090", "--model", "Qwen/Qwen3-14B", size=(120, 40))
    terminal.until("RTX 3090")
    terminal.until("requests at once")
    time.sleep(1)  # the session is kept once all is answered
    terminal.press("q")
    terminal.until("status 0")
    terminal.close()
    terminal.run("tui", "--offline")
    assert "Qwen/Qwen3-14B" in terminal.until("RTX 3090")
    terminal.press("q")
    terminal.until("status 0")


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_dumb_terminal_is_told_in_one_line_what_is_needed(terminal: Terminal, term: str) -> None:
    terminal.run("tui", term=term, size=(200, 24))
    lines = terminal.until("status 2").strip().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("vplan: vplan tui needs a terminal")


def test_plain_vplan_on_a_dumb_terminal_prints_the_help(terminal: Terminal) -> None:
    terminal.run(term="dumb", size=(120, 60))
    shown = terminal.until("status ")
    assert "Usage: vplan" in shown
    assert "Traceback" not in shown
