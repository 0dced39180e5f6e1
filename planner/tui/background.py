"""What may take long: the Hub, rankings, sweeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Final, Protocol, TypeVar, runtime_checkable

from planner.turns import giving_way

Answer = TypeVar("Answer")
_SHOWN: Final = 0.1  # seconds within which what a key does is drawn


@runtime_checkable
class Running(Protocol):
    """A screen with something that must end before the program does."""

    @property
    def running(self) -> bool:
        """Whether it runs."""
        ...

    async def end(self) -> None:
        """End it, and wait for that."""
        ...


async def in_background(call: Callable[[], Answer]) -> Answer:
    """The answer of a call made in a thread.

    Who stops waiting drops the answer; the thread keeps nobody from quitting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def deliver(answer: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the program has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if future.done() else answer())

    def run() -> None:
        try:
            answer = call()
        except Exception as error:
            failure = error  # the name of an except clause ends with it
            deliver(lambda: future.set_exception(failure))
        else:
            deliver(lambda: future.set_result(answer))

    Thread(target=run, daemon=True).start()
    return await future


class SpareTime:
    """What can wait is done while nobody does anything."""

    def __init__(self) -> None:
        self._begins = 0.0

    def postpone(self) -> None:
        """Somebody does something: what is being done in spare time waits for that."""
        self._begins = time.monotonic() + _SHOWN

    async def answer(self, call: Callable[[], Answer]) -> Answer:
        """The answer of a call made in a thread, which gives way; who stops waiting ends it."""
        waits = True

        def ask() -> None:
            while waits and (left := self._begins - time.monotonic()) > 0:
                time.sleep(left)
            if not waits:
                raise _Unwanted

        def unhurried() -> Answer:
            with giving_way(ask):
                ask()
                return call()

        try:
            return await in_background(unhurried)
        finally:
            waits = False


class _Unwanted(Exception):
    """Nobody waits for the answer."""


SPARE_TIME: Final = SpareTime()
