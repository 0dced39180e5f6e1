"""Exit statuses."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What a command says to whoever started it."""

    YES = 0  # it fits, it starts
    NO = 1  # it does not
    BAD_INPUT = 2
    RISKY = 3  # it may start
    LAUNCH_FAILED = 4  # a real launch did not start
