"""System memory of this machine."""

from __future__ import annotations

from os import uname

from msgspec import Struct

from hardware_db.units import KIB


class HostMemory(Struct, frozen=True):
    """Linux's MemTotal and MemAvailable, in bytes."""

    total_bytes: int
    available_bytes: int


def host_memory(path: str = "/proc/meminfo") -> HostMemory | None:
    """The machine's memory; None where ``path`` cannot be read (not Linux) or lacks the figures."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        total, available = (int(fields[k].split()[0]) for k in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError, IndexError):
        return None
    return HostMemory(total * KIB, available * KIB)


def runs_under_wsl() -> bool:
    """Whether this is Linux inside Windows, where the driver hides no reserve from the total."""
    return "microsoft" in uname().release.casefold()
