"""What the GPUs of this machine have in use at a moment, asked through NVML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

from msgspec import Struct

from hardware_db.nvml import read_memory
from hardware_db.rig import Device


class GpuMemory(Struct, frozen=True):
    """What programs have taken of a GPU, of every user, and what there is, in bytes."""

    index: int
    used: int
    total: int


class GpuUsage(Struct, frozen=True):
    """All the GPUs that were asked about, together; each of them where the driver tells it."""

    memory_bytes: int
    watts: float | None
    gpus: tuple[GpuMemory, ...] = ()


class GpuMeter:
    """Asks the devices of a detected rig, all cards if there are none; for a ``with``.

    ``nvml`` is ``pynvml``. Its answers are None where there is no driver, where one of the devices
    is not to be had, and as long as one fails: never a part of the sum.
    """

    def __init__(self, nvml: Any, devices: Sequence[Device] = ()) -> None:
        self._nvml = nvml
        self._devices = devices
        self._handles: list[tuple[int, Any]] = []  # with the index of the card
        self._open = False

    def __enter__(self) -> Self:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlInit()
            self._open = True
            self._handles = list(self._found())
        return self

    def __exit__(self, *raised: object) -> None:
        if self._open:
            self._open = False
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def read(self) -> GpuUsage | None:
        """What is in use now, without what the driver keeps where it tells that apart."""
        if not self._open or not self._handles:
            return None
        told = [(index, read_memory(self._nvml, each)) for index, each in self._handles]
        gpus = tuple(
            GpuMemory(index, each.total - each.free - (each.reserved or 0), each.total)
            for index, each in told
            if each is not None
        )
        if len(gpus) < len(self._handles):
            return None
        used = sum(gpu.used for gpu in gpus)
        try:
            milliwatts = sum(self._nvml.nvmlDeviceGetPowerUsage(each) for _, each in self._handles)
        except (self._nvml.NVMLError, AttributeError):  # not every card says, no MIG instance does
            return GpuUsage(used, None, gpus)
        return GpuUsage(used, milliwatts / 1000, gpus)

    def _found(self) -> Iterator[tuple[int, Any]]:
        nvml = self._nvml
        if not self._devices:
            for index in range(nvml.nvmlDeviceGetCount()):
                yield index, nvml.nvmlDeviceGetHandleByIndex(index)
        for place, device in enumerate(self._devices):
            index = place if device.index is None else device.index
            if device.instance is not None:
                yield index, nvml.nvmlDeviceGetHandleByUUID(device.instance)
            else:
                yield index, nvml.nvmlDeviceGetHandleByIndex(device.index)
