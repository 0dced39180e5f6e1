"""What may take long: the Hub, rankings, sweeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Protocol, TypeVar, runtime_checkable

Answer = TypeVar("Answer")


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
