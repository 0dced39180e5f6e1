"""The device as vLLM's platform code sees it: what its decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

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
    aiter_mla: bool = False  # AMD's own kernels for latent attention are asked for

    @property
    def has_amx(self) -> bool:
        """Whether a CPU has matrix tiles."""
        return "amx_tile" in self.cpu_flags

    @property
    def is_sm100(self) -> bool:
        """Data-centre Blackwell, compute capability 10.x."""
        return self.capability is not None and self.capability[0] == 10


def device_facts(gpu: Gpu, environ: Mapping[str, str] | None = None) -> DeviceFacts:
    """What vLLM would ask of this GPU, started with the variables of `environ`."""
    asked = environ or {}
    return DeviceFacts(
        _PLATFORMS[gpu.vendor],
        gpu.driver_name,
        gpu.compute_capability,
        gpu.gfx,
        gpu.memory.device_total_bytes or 0,
        gpu.cpu_flags,
        gpu.sm_count,
        is_on(asked.get("VLLM_ROCM_USE_AITER", "0"))
        and is_on(asked.get("VLLM_ROCM_USE_AITER_MLA", "1")),
    )


# Lowest compute capability that computes in a weight format; below, it is unpacked to 16 bit.
COMPUTES: Final = {"fp8": (8, 9), "nvfp4": (10, 0), "mxfp4": (10, 0)}


def computes_in(weight_format: str, device: DeviceFacts) -> bool:
    """Whether the device has the units that a weight format needs, as far as that is known."""
    needed = COMPUTES.get(weight_format)
    if needed is None or device.platform is not Platform.CUDA or device.capability is None:
        return True
    return device.capability >= needed


def is_on(value: str) -> bool:
    """Whether a variable of vLLM's switches something on."""
    return value.strip().lower() in ("1", "true")
