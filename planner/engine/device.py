"""The device as vLLM's platform code sees it: what its decisions depend on."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from hardware_db import Gpu


class Platform(Enum):
    """vLLM's platforms."""

    CUDA = "CUDA"
    ROCM = "ROCm"
    XPU = "XPU"
    CPU = "CPU"


_PLATFORMS = {
    "nvidia": Platform.CUDA,
    "custom": Platform.CUDA,
    "amd": Platform.ROCM,
    "intel": Platform.XPU,
    "cpu": Platform.CPU,
}


class DeviceFacts(Struct, frozen=True):
    """Name, capability and memory of one device, as vLLM's defaults and kernel choices ask."""

    platform: Platform
    name: str  # as the driver reports it
    capability: tuple[int, int] | None  # CUDA compute capability
    gfx: str | None  # AMD architecture
    total_bytes: int  # what defaults compare with: NVML's total on CUDA
    cpu_flags: tuple[str, ...] = ()  # instructions of a CPU
    sm_count: int | None = None

    @property
    def has_amx(self) -> bool:
        """Whether a CPU has matrix tiles."""
        return "amx_tile" in self.cpu_flags

    @property
    def is_sm100(self) -> bool:
        """Data-centre Blackwell, compute capability 10.x."""
        return self.capability is not None and self.capability[0] == 10


def device_facts(gpu: Gpu) -> DeviceFacts:
    """What vLLM would ask of this GPU."""
    return DeviceFacts(
        _PLATFORMS[gpu.vendor],
        gpu.driver_name,
        gpu.compute_capability,
        gpu.gfx,
        gpu.memory.device_total_bytes or 0,
        gpu.cpu_flags,
        gpu.sm_count,
    )
