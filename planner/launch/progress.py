"""What a validation tells while it runs, and how to end it early.

An observer is any function that takes an `Event`. It is called from the thread that runs the
validation and, for `InUse`, from one that watches the machine: it must be quick, and hand over to
a user interface's own thread by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as Flag

from msgspec import Struct

from hardware_db.usage import GpuMemory
from planner.errors import PlanError
from planner.launch.facts import Milestone


class Reached(Struct, frozen=True):
    """The server got to a milestone, so many seconds after its start."""

    milestone: Milestone
    seconds: float


class Logged(Struct, frozen=True):
    """The next line of the server's log, without its end."""

    line: str


class InUse(Struct, frozen=True):
    """Memory in use now, in bytes (of the GPUs, or of a CPU server), and power.

    `gpus` tells of each GPU; it is empty for a server on CPUs.
    """

    memory: int
    watts: float | None
    gpus: tuple[GpuMemory, ...] = ()


class Asking(Struct, frozen=True):
    """What is sent to the server now, in words."""

    text: str


class Trying(Struct, frozen=True):
    """A corrected command is next: what was changed, and which try it is."""

    change: str
    number: int


Event = Reached | Logged | InUse | Asking | Trying
Observer = Callable[[Event], None]


class Cancelled(PlanError):
    """The validation was ended on request; nothing of the server is left."""


def ignore(event: Event) -> None:
    """The observer that wants to know nothing."""


def check(cancel: Flag | None) -> None:
    """Raises `Cancelled` if the flag is up."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the validation was cancelled")
