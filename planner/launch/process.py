"""A server of vLLM's as processes of our own: started, watched until ready, always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from planner.errors import PlanError
from planner.launch import watchdog
from planner.launch.client import Client, ServerError
from planner.launch.facts import LaunchFacts, Milestone
from planner.launch.log import LogReader

_GRACE: Final = 5.0  # from asking a server to end to making it
_STOP_SECONDS: Final = 20.0  # for the watchdog to finish that
_POLL: Final = 0.2
_HEALTH_SECONDS: Final = 2.0


class Outcome(Enum):
    """What waiting for a server came to."""

    READY = "ready"
    ENDED = "ended"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: its words, its whole environment, where its output goes."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    log: Path


class Server:
    """A running server, to be used in a `with`: at its end nothing of it is left.

    It runs in a session of its own below a watchdog, which ends it if this process vanishes.
    """

    def __init__(self, launch: Launch, client: Client) -> None:
        self._client = client
        self._reader = LogReader()
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._tail = ""
        self._exit: int | None = None
        self._told = b""
        launch.log.touch(mode=0o600)
        self._log: IO[bytes] = launch.log.open("rb")
        self._began = time.monotonic()
        # -I: nothing of the server's environment changes what the watchdog imports.
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", watchdog.__file__, str(_GRACE), str(launch.log), *launch.argv],
            env=dict(launch.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._began

    @property
    def exit_status(self) -> int | None:
        """Of the server; None while it runs."""
        if self._exit is None:
            self._hear()
        return self._exit

    @property
    def facts(self) -> LaunchFacts:
        """What its log says so far."""
        self._read()
        return self._reader.facts

    def wait_until_ready(
        self, timeout: float, on_milestone: Callable[[Milestone, float], None]
    ) -> Outcome:
        """Until it answers, ends, or the time is over; milestones of its log as they come."""
        seen: set[Milestone] = set()
        health = Client(self._client.port, self._client.api_key, _HEALTH_SECONDS)
        while True:
            ended = self.exit_status is not None
            for milestone, _ in self.facts.milestones:
                if milestone not in seen and milestone < Milestone.READY:
                    on_milestone(milestone, self.seconds)
                seen.add(milestone)
            if ended:
                return Outcome.ENDED
            if _answers(health):
                on_milestone(Milestone.READY, self.seconds)
                return Outcome.READY
            if self.seconds > timeout:
                return Outcome.TIMEOUT
            time.sleep(_POLL)

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
                self._kill_group()
            finally:
                self._hear()
                self._read()
                self._close()
        return self._exit

    def keep(self) -> None:
        """Let it run on after this process; the watchdog cleans up after it all the same."""
        with suppress(OSError):
            self._orders.write(b"keep\n")
            self._orders.flush()
        self._orders.close()
        self._news.close()
        self._log.close()

    def _hear(self) -> None:
        """What the watchdog tells: that the server ended. Without a watchdog, end it here."""
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
            self._kill_group()
            self._exit = -signal.SIGKILL

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self) -> None:
        if self._log.closed:
            return
        lines = (self._tail + self._decoder.decode(self._log.read())).splitlines(keepends=True)
        self._tail = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        for line in lines:
            self._reader.feed(line)

    def _close(self) -> None:
        for stream in (self._orders, self._news, self._log):
            with suppress(OSError):
                stream.close()
        # Its input is closed: it ends by itself, and must not be waited for by the interpreter.
        with suppress(subprocess.TimeoutExpired):
            self._watchdog.wait(_GRACE)


def _answers(client: Client) -> bool:
    try:
        client.text("/health")
    except ServerError:
        return False
    return True
