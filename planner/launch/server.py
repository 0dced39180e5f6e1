"""A server of vLLM's that we start: its log read as it grows, watched until it is ready."""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from enum import Enum
from threading import Event as Flag
from typing import IO, Final

from planner.launch.client import Client, ServerError
from planner.launch.facts import LaunchFacts, Milestone
from planner.launch.log import LogReader
from planner.launch.process import Launch, Watched
from planner.launch.progress import Logged, Observer, Reached, check, ignore

_POLL: Final = 0.2
_HEALTH_SECONDS: Final = 2.0


class Outcome(Enum):
    """What waiting for a server came to."""

    READY = "ready"
    ENDED = "ended"
    TIMEOUT = "timeout"


class Server(Watched):
    """A running server; `observer` hears of its log lines and milestones."""

    def __init__(self, launch: Launch, client: Client, observer: Observer = ignore) -> None:
        self._client = client
        self._observer = observer
        self._reader = LogReader()
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._tail = ""
        launch.log.touch(mode=0o600)
        self._log: IO[bytes] = launch.log.open("rb")
        try:
            super().__init__(launch)
        except BaseException:
            self._log.close()
            raise

    @property
    def facts(self) -> LaunchFacts:
        """What its log says so far."""
        self._read()
        return self._reader.facts

    def wait_until_ready(self, timeout: float, cancel: Flag | None = None) -> Outcome:
        """Until it answers, ends, or the time is over. Raises `Cancelled` if the flag goes up."""
        seen: set[Milestone] = set()
        health = self._client.patient(_HEALTH_SECONDS)
        while True:
            check(cancel)
            ended = self.exit_status is not None
            for milestone, _ in self.facts.milestones:
                if milestone not in seen and milestone < Milestone.READY:
                    self._observer(Reached(milestone, self.seconds))
                seen.add(milestone)
            if ended:
                return Outcome.ENDED
            if _answers(health):
                self._observer(Reached(Milestone.READY, self.seconds))
                return Outcome.READY
            if self.seconds > timeout:
                return Outcome.TIMEOUT
            time.sleep(_POLL)

    def wait_for_end(self, timeout: float) -> None:
        """Until it ended by itself, or the time is over."""
        until = time.monotonic() + timeout
        while self.exit_status is None and time.monotonic() < until:
            time.sleep(_POLL)

    def stop(self) -> int | None:
        """End it and all that it started; its exit status. Does no harm twice."""
        try:
            return super().stop()
        finally:
            self._read()
            self._log.close()

    def keep(self) -> None:
        """Let it run on after this process; the watchdog cleans up after it all the same."""
        super().keep()
        self._log.close()

    def _read(self) -> None:
        if self._log.closed:
            return
        lines = (self._tail + self._decoder.decode(self._log.read())).splitlines(keepends=True)
        self._tail = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        for line in lines:
            self._reader.feed(line)
            self._observer(Logged(line.rstrip()))


def _answers(client: Client) -> bool:
    try:
        client.text("/health")
    except ServerError:
        return False
    return True
