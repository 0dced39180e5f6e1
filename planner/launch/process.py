"""A program as processes of our own, below a watchdog: however it ends, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from planner.errors import PlanError
from planner.launch import watchdog

_GRACE: Final = 5.0  # from asking a program to end to making it
_STOP_SECONDS: Final = 20.0  # for the watchdog to finish that


class Launch(Struct, frozen=True):
    """What to start: its words, its whole environment, where its output goes.

    `after` are the words of a command that ends what the program may leave elsewhere (a container).
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    log: Path
    after: tuple[str, ...] = ()


class Watched:
    """A running program, to be used in a `with`: at its end nothing of it is left.

    It runs in a session of its own below a watchdog, which ends it if this process vanishes.
    """

    def __init__(self, launch: Launch) -> None:
        self._exit: int | None = None
        self._told = b""
        self._seen: set[watchdog.Process] = set()
        launch.log.touch(mode=0o600)
        self._began = time.monotonic()
        # -I: nothing of the program's environment changes what the watchdog imports.
        self._watchdog = subprocess.Popen(
            [
                sys.executable, "-I", watchdog.__file__, str(_GRACE), str(launch.log),
                str(len(launch.after)), *launch.after, *launch.argv,
            ],
            env=dict(launch.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what it has to say, it says on the other
            start_new_session=True,
        )  # fmt: skip
        assert self._watchdog.stdin is not None
        assert self._watchdog.stdout is not None
        self._orders, self._news = self._watchdog.stdin, self._watchdog.stdout
        try:
            kind, _, text = self._news.readline().decode("utf-8", "replace").strip().partition(" ")
            if kind != "pid":
                raise PlanError(f"the server cannot be started: {text or 'no watchdog'}")
            self.pid = int(text)
            os.set_blocking(self._news.fileno(), False)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._began

    @property
    def exit_status(self) -> int | None:
        """Of the program; None while it runs."""
        if self._exit is None:
            self._hear()
        if self._exit is None:
            self._seen.update(watchdog.descendants(self._watchdog.pid))
        return self._exit

    @property
    def pids(self) -> list[int]:
        """The program and all that descends from it; none where the system does not say."""
        return [process.pid for process in watchdog.descendants(self._watchdog.pid)]

    def stop(self) -> int | None:
        """End it and all that it started; its exit status. Does no harm twice."""
        if not self._orders.closed:
            with suppress(OSError):
                self._orders.write(b"stop\n")
                self._orders.flush()
            try:
                self._watchdog.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._watchdog.kill()
                self._kill_seen()
            finally:
                self._hear()
                self._close()
        return self._exit

    def keep(self) -> None:
        """Let it run on after this process; the watchdog cleans up after it all the same."""
        with suppress(OSError):
            self._orders.write(b"keep\n")
            self._orders.flush()
        self._orders.close()
        self._news.close()

    def _hear(self) -> None:
        """What the watchdog tells: that the program ended. Without a watchdog, end it here."""
        if self._news.closed:
            return
        self._told += self._news.read() or b""
        for line in self._told.splitlines():
            kind, _, number = line.partition(b" ")
            if kind == b"exit":
                self._exit = int(number)
        if self._exit is None and self._watchdog.poll() is not None:
            self._told += self._news.read() or b""
            if b"exit" in self._told:
                self._hear()
                return
            self._kill_seen()
            self._exit = -signal.SIGKILL

    def _kill_seen(self) -> None:
        """Its process group, and what was seen of it in others."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for process in self._seen & set(watchdog.processes()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)

    def _close(self) -> None:
        for stream in (self._orders, self._news):
            with suppress(OSError):
                stream.close()
        # Its input is closed: it ends by itself, and must not be waited for by the interpreter.
        with suppress(subprocess.TimeoutExpired):
            self._watchdog.wait(_GRACE)
