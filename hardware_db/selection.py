"""Which of the known GPUs are meant, and in which order: by vendor, memory, capability."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from hardware_db.errors import HardwareError, quoted
from hardware_db.gpu import Gpu
from hardware_db.units import GIB, parse_size

_VENDORS: Final = ("nvidia", "amd", "intel")
_CAPABILITY: Final = re.compile(r"(?:sm_?|cc)?(\d{1,2})\.?(\d)", re.IGNORECASE)

_Key = Callable[[Gpu], float | None]


# What to sort by, the largest first. Names need no key.
_KEYS: Final[dict[str, _Key]] = {
    "memory": lambda gpu: gpu.memory.total_bytes,
    "bandwidth": lambda gpu: gpu.bandwidth_gbs,
    "compute": lambda gpu: gpu.matmul("bf16") or gpu.matmul("fp16"),
}
SORTS: Final = ("name", *_KEYS)


class GpuSelection(Struct, frozen=True):
    """What is wanted of a GPU. What is not known of a card counts as not met."""

    vendor: str | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    capability: tuple[int, int] | None = None  # at least
    sort: str = "name"

    @classmethod
    def of(
        cls,
        *,
        vendor: str | None = None,
        min_memory: str | None = None,
        max_memory: str | None = None,
        capability: str | None = None,
        sort: str = "name",
    ) -> GpuSelection:
        """From what a user wrote. Raises `HardwareError` with one line."""
        if vendor is not None and vendor.lower() not in _VENDORS:
            raise HardwareError(f"Unknown vendor {quoted(vendor)}; one of {', '.join(_VENDORS)}")
        if sort not in SORTS:
            raise HardwareError(f"Cannot sort by {quoted(sort)}; by {', '.join(SORTS)}")
        return cls(
            vendor.lower() if vendor is not None else None,
            _bytes(min_memory),
            _bytes(max_memory),
            _read_capability(capability) if capability is not None else None,
            sort,
        )

    def select(self, gpus: Iterable[Gpu]) -> list[Gpu]:
        """Those of `gpus` that are meant, in order."""
        found = [gpu for gpu in gpus if self._matches(gpu)]
        key = _KEYS.get(self.sort)
        if key is not None:
            known = {gpu.slug: key(gpu) for gpu in found}
            found.sort(key=lambda gpu: _last_if_unknown(known[gpu.slug]))
        return found

    def _matches(self, gpu: Gpu) -> bool:
        total, capability = _on_the_box(gpu), gpu.compute_capability
        if self.vendor is not None and gpu.vendor != self.vendor:
            return False
        if self.min_bytes is not None and (total is None or total < self.min_bytes):
            return False
        if self.max_bytes is not None and (total is None or total > self.max_bytes):
            return False
        return self.capability is None or (capability is not None and capability >= self.capability)


def _last_if_unknown(value: float | None) -> tuple[bool, float]:
    return (True, 0.0) if value is None else (False, -value)


def _on_the_box(gpu: Gpu) -> int | None:
    """The memory a card is sold with: people ask for 24 GiB and mean a card that shows 23.6."""
    nominal = gpu.memory.nominal_gb
    return round(nominal * GIB) if nominal is not None else gpu.memory.total_bytes


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise HardwareError(f'{error}; write for example "22GiB"') from None


def _read_capability(text: str) -> tuple[int, int]:
    match = _CAPABILITY.fullmatch(text.strip())
    if match is None:
        raise HardwareError(f'{quoted(text)} is no compute capability such as "8.9" or "sm_90"')
    return int(match[1]), int(match[2])
