"""Readers that go away, full disks, closed streams and Ctrl-C end a run without a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from program import EXECUTABLE, VERSION, environment, vplan


def start(*arguments: str, **changes: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [EXECUTABLE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**changes),
        # As in a terminal, even where the tests run in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(
    "arguments",
    [("models", "llama"), ("schema",), ("gpus",), ("gpus", "--json"), ("--help",),
     ("recommend", "--gpu", "4090", "--limit", "2"),
     ("recommend", "--gpu", "4090", "--limit", "2", "--json")],
    ids=" ".join,
)  # fmt: skip
def test_a_reader_that_takes_one_line(arguments: tuple[str, ...]) -> None:
    """`vplan models | head -1`"""
    process = start(*arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(30) in (0, 128 + signal.SIGPIPE)
    assert errors == b""


@pytest.mark.parametrize("command", ["gpus --json", "--version", "__complete models x"])
def test_a_reader_that_takes_nothing(command: str) -> None:
    """More than a pipe holds, or a pipe that is closed before anything is written."""
    process = start(*command.split())
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(30) == 128 + signal.SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["gpus", "gpus --json", "--help", "schema", "--version",
                                     "__complete recommend --gpu h"])  # fmt: skip
def test_a_full_disk(command: str) -> None:
    shell = f"{EXECUTABLE} {command} > /dev/full"
    run = subprocess.run(
        ["/bin/sh", "-c", shell], capture_output=True, env=environment(), text=True, timeout=60
    )
    assert run.returncode == 2
    assert run.stderr == "vplan: Cannot use the output: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "status"),
    [("gpus 4090 >&-", 0), ("gpus 4909 >&-", 2), ("gpus 4909 2>&-", 2), ("gpus 4090 >&- 2>&-", 0),
     ("gpus --json >&-", 0)],
)  # fmt: skip
def test_closed_streams(command: str, status: int) -> None:
    run = subprocess.run(
        ["/bin/sh", "-c", f"{EXECUTABLE} {command}"],
        capture_output=True,
        env=environment(),
        text=True,
        timeout=60,
    )
    assert run.returncode == status
    assert run.stdout == ""
    assert run.stderr.count("\n") == (1 if "4909 >" in command else 0)
    assert "Traceback" not in run.stderr


def test_ctrl_c_while_the_hub_keeps_one_waiting() -> None:
    """A Hub that never answers: the run is interrupted once it has called."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = start(
            "models",
            "somebody/some-model",
            HF_ENDPOINT=f"http://127.0.0.1:{server.getsockname()[1]}",
            HF_HUB_OFFLINE="0",
            NO_PROXY="127.0.0.1",
        )
        server.settimeout(30)
        connection, _ = server.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    assert errors == b""


def test_ctrl_c_while_modules_are_imported(tmp_path: Path) -> None:
    (tmp_path / "typer").mkdir()
    (tmp_path / "typer" / "__init__.py").write_text("raise KeyboardInterrupt\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    run = vplan("gpus", PYTHONPATH=path)
    assert (run.status, run.out, run.err) == (128 + signal.SIGINT, "", "")


def test_a_terminal_without_a_width(tmp_path: Path) -> None:
    """COLUMNS=0, as some environments set it, printed nothing at all."""
    ours, theirs = os.openpty()
    run = subprocess.Popen(
        [EXECUTABLE, "gpus", "4090"], stdout=theirs, env=environment(COLUMNS="0", TERM="dumb")
    )
    assert run.wait(60) == 0
    assert "4090" in os.read(ours, 10_000).decode()
    os.close(ours)
    os.close(theirs)


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    run = subprocess.run(
        ["/bin/sh", "-c", f"cd gone && rmdir ../gone && {EXECUTABLE} models add ."],
        capture_output=True, env=environment(), text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == "vplan: Cannot use the current folder: No such file or directory\n"


def test_the_module_can_be_run_without_the_script() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from planner.cli import main; main()", "--version"],
        capture_output=True,
        env=environment(),
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, f"vplan {VERSION}\n", "")
