"""What the GPUs of this machine have in use at a moment, asked through NVML."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from msgspec import Struct


class GpuUsage(Struct, frozen=True):
    """All the GPUs that were asked about, together."""

    memory_bytes: int
    watts: float | None


class GpuMeter:
    """Asks the GPUs with the given indices, all if None; for a `with`. `nvml` is ``pynvml``.

    Its answers are None where there is no driver, and as soon as it fails.
    """

    def __init__(self, nvml: Any, indices: Collection[int] | None = None) -> None:
        self._nvml = nvml
        self._indices = indices
        self._handles: list[Any] = []
        self._open = False

    def __enter__(self) -> Self:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlInit()
            self._open = True
            for index in range(self._nvml.nvmlDeviceGetCount()):
                if self._indices is None or index in self._indices:
                    self._handles.append(self._nvml.nvmlDeviceGetHandleByIndex(index))
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
        """What is in use now."""
        if not self._open or not self._handles:
            return None
        try:
            memory = sum(self._nvml.nvmlDeviceGetMemoryInfo(each).used for each in self._handles)
        except self._nvml.NVMLError:
            return None
        try:
            milliwatts = sum(self._nvml.nvmlDeviceGetPowerUsage(each) for each in self._handles)
        except (self._nvml.NVMLError, AttributeError):  # not every card says
            return GpuUsage(int(memory), None)
        return GpuUsage(int(memory), milliwatts / 1000)
