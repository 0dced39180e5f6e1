"""What the GPUs of this machine have in use at a moment, asked through NVML."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from hardware_db.nvml import read_memory
from hardware_db.rig import Device


class GpuUsage(Struct, frozen=True):
    """All the GPUs that were asked about, together: what programs have taken, of every user."""

    memory_bytes: int
    watts: float | None


class GpuMeter:
    """Asks the devices of a detected rig, all cards if there are none; for a ``with``.

    ``nvml`` is ``pynvml``. Its answers are None where there is no driver, where one of the devices
    is not to be had, and as long as one fails: never a part of the sum.
    """

    def __init__(self, nvml: Any, devices: Sequence[Device] = ()) -> None:
        self._nvml = nvml
        self._devices = devices
        self._handles: list[Any] = []
        self._open = False

    def __enter__(self) -> Self:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlInit()
            self._open = True
            self._handles = list(self._found())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open:
            self._open = False
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def read(self) -> GpuUsage | None:
        """What is in use now, without what the driver keeps where it tells that apart."""
        if not self._open or not self._handles:
            return None
        memory = [read_memory(self._nvml, each) for each in self._handles]
        used = [each.total - each.free - (each.reserved or 0) for each in memory if each]
        if len(used) < len(self._handles):
            return None
        try:
            milliwatts = sum(self._nvml.nvmlDeviceGetPowerUsage(each) for each in self._handles)
        except (self._nvml.NVMLError, AttributeError):  # not every card says, no MIG instance does
            return GpuUsage(sum(used), None)
        return GpuUsage(sum(used), milliwatts / 1000)

    def _found(self) -> list[Any]:
        nvml = self._nvml
        if not self._devices:
            return [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return [
            nvml.nvmlDeviceGetHandleByUUID(device.instance)
            if device.instance is not None
            else nvml.nvmlDeviceGetHandleByIndex(device.index)
            for device in self._devices
        ]
