"""Stands between vplan and a server: whatever ends vplan, all that was started ends too.

A program of its own, which imports nothing of vplan: `watchdog.py GRACE LOG N AFTER... COMMAND...`
starts the command with its output in the file LOG. Its input is a pipe that only vplan holds: where
that closes (vplan is gone, killed even), or says "stop", the server is asked to end and after GRACE
seconds made to, with every process that descends from it; then the N words AFTER are run, if any.
"keep" lets the server outlive vplan. Its output is "pid N", then "exit N"; or "error ..." where the
command cannot be started.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # of Linux's prctl
_PAUSE = 0.05
_KILL_SECONDS = 5.0
_AFTER_SECONDS = 8.0


class _Watchdog:
    def __init__(
        self, grace: float, log: str, after: Sequence[str], command: Sequence[str]
    ) -> None:
        self._grace = grace
        self._after = after
        self._kept = False
        self._asked_at: float | None = None
        self._exit: int | None = None
        libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        if libc is not None:  # orphans become ours, so that none is lost
            libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

        def die_with_us() -> None:
            if libc is not None:
                libc.prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

        with open(log, "ab", buffering=0) as out:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_us,
            )
        self._pid = server.pid
        server.returncode = 0  # reaped below, together with what it leaves behind

    def run(self) -> None:
        """Until the server has ended, and everything with it."""
        _tell(f"pid {self._pid}")
        while self._exit is None:
            self._listen()
            self._reap()
            if self._asked_at is not None and time.monotonic() > self._asked_at + self._grace:
                break
        self._kill_all()
        self._clear_up()
        _tell(f"exit {self._exit if self._exit is not None else -signal.SIGKILL}")

    def ask_to_end(self, *_: object) -> None:
        """Once; a server that gets a second signal ends without cleaning up."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def _listen(self) -> None:
        if self._asked_at is not None or self._kept:
            time.sleep(_PAUSE)
            return
        if not select.select([0], [], [], _PAUSE)[0]:
            return
        words = os.read(0, 1024).split()
        if b"keep" in words:
            self._kept = True
        else:
            self.ask_to_end()

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._exit = os.waitstatus_to_exitcode(status)

    def _kill_all(self) -> None:
        """The server's process group, and what descends from it in other groups."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        until = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < until:
            self._reap()
            left = descendants(os.getpid())
            if not left:
                return
            for process in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
            time.sleep(_PAUSE)

    def _clear_up(self) -> None:
        """What the server may have left with a program that is not below us."""
        if not self._after:
            return
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                self._after,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_AFTER_SECONDS,
            )


class Process(NamedTuple):
    """A process, told from a later one with its number by when it began."""

    pid: int
    began: int


def processes() -> dict[Process, int]:
    """Those that run, zombies too, with their parents; none where the system does not say."""
    found: dict[Process, int] = {}
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    with open(f"/proc/{name}/stat", "rb") as stat:
                        after_name = stat.read().rpartition(b")")[2].split()
                    found[Process(int(name), int(after_name[19]))] = int(after_name[1])
    return found


def descendants(ancestor: int) -> list[Process]:
    """Processes below another."""
    parents = processes()
    found: list[Process] = []
    fresh = {ancestor}
    while fresh:
        below = sorted(each for each, parent in parents.items() if parent in fresh)
        found += below
        fresh = {each.pid for each in below}
    return found


def _tell(line: str) -> None:
    with suppress(OSError):  # nobody may be there to hear it
        os.write(1, f"{line}\n".encode())


def main(arguments: Sequence[str]) -> None:
    """Watch over one server."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        grace, log, count, *words = arguments
        after, command = words[: int(count)], words[int(count) :]
        watchdog = _Watchdog(float(grace), log, after, command)
    except OSError as error:
        _tell(f"error {error.strerror or error}: {error.filename or command[0]}")
        return
    signal.signal(signal.SIGTERM, watchdog.ask_to_end)
    watchdog.run()


if __name__ == "__main__":
    main(sys.argv[1:])
