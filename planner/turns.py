"""Turns: long work lets something shorter go first, if whoever asked for it says so.

Python threads share one processor. What is asked for in the background of a screen would make a
key wait as long again as its own work takes; so what takes long asks now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_ASKED: Final[ContextVar[Callable[[], None] | None]] = ContextVar("_ASKED", default=None)


def give_way() -> None:
    """Let others go first; called by what is done many times in long work."""
    ask = _ASKED.get()
    if ask is not None:
        ask()


@contextmanager
def giving_way(ask: Callable[[], None]) -> Iterator[None]:
    """Meanwhile `give_way` in this thread calls `ask`, which waits, or raises to end the work."""
    token = _ASKED.set(ask)
    try:
        yield
    finally:
        _ASKED.reset(token)
