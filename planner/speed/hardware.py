"""How fast the hardware of a launch is: bandwidth, matrix rates, links."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hardware_db import Device, Rig
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan

# One way, where the link's rate is not known: Infinity Fabric between dies; PCIe 4.0, eight lanes.
_FABRIC_GBS, _UNKNOWN_LINK_GBS = 50.0, 16.0
# Dtypes whose matrix rates a format's kernels can use, best first; 16 bit where none is known.
_FP8_SINCE: Final = (8, 9)
_FP4_SINCE: Final = (10, 0)


class MissingFact(PlanError):
    """A fact of the hardware without which there is no speed to predict."""


class Link(Struct, frozen=True):
    """What joins the ranks that work on one step."""

    kind: str  # "nvlink" (or another fabric) or "pcie"
    rate: float  # bytes per second and direction
    devices: int | None  # of a machine, where there are several machines

    def spans_machines(self, ranks: int) -> bool:
        """Whether a group of so many ranks talks over the network."""
        return self.devices is not None and ranks > self.devices


class Hardware(Struct, frozen=True):
    """The slowest device of a rig, for which every rank waits. Bytes and operations per second."""

    bandwidth: float
    rates: dict[str, float]  # dense matrix rates by the dtype of constants; {}: none known
    link: Link
    host_link: float | None  # PCIe to the host, one way

    @classmethod
    def of(cls, memory: MemoryPlan) -> Hardware:
        """The hardware of a plan. Raises `MissingFact` if its bandwidth is not known."""
        slot = slowest(memory.rig)
        gpu = slot.gpu
        if gpu.bandwidth_gbs is None:
            raise MissingFact(f"memory bandwidth of {gpu.name} is not known: no speed")
        return cls(
            bandwidth=gpu.bandwidth_gbs * 1e9,
            rates=_rates(slot, memory.config.dtype),
            link=_link(memory.rig),
            host_link=gpu.pcie.gbs_per_direction * 1e9 if gpu.pcie is not None else None,
        )

    def compute_dtype(self, kind: str, capability: tuple[int, int] | None) -> str:
        """The dtype in which kernels multiply weights of a format; weight-only ones in 16 bit."""
        at_least = capability or (0, 0)
        if kind in ("fp8", "mxfp8") and at_least >= _FP8_SINCE:
            wanted = "fp8"
        elif kind == "mxfp4" and (10, 0) <= at_least < (11, 0):
            wanted = "fp8"  # activations in MXFP8
        elif kind == "nvfp4" and at_least >= _FP4_SINCE:
            wanted = "fp4"
        elif kind == "w8a8":
            wanted = "int8"
        else:
            wanted = "16bit"
        return wanted if wanted in self.rates else "16bit"


def kernel_kind(kind: str, capability: tuple[int, int] | None) -> str:
    """The format whose kernels read weights of another: Marlin's, where a GPU lacks the dtype."""
    if capability is None:
        return kind
    if kind in ("fp8", "mxfp8") and capability < _FP8_SINCE:
        return "int8"
    missing = (kind == "nvfp4" and capability < _FP4_SINCE) or (
        kind == "mxfp4" and capability[0] < 9
    )
    return "int4" if missing else kind


def slowest(rig: Rig) -> Device:
    """Every rank waits for the device with the least bandwidth."""
    return min(rig.devices, key=lambda slot: slot.gpu.bandwidth_gbs or 0.0)


def _rates(slot: Device, dtype: str) -> dict[str, float]:
    gpu = slot.gpu
    half = gpu.matmul("fp16") if dtype == "float16" else gpu.matmul("bf16")
    found = {
        "16bit": half or gpu.matmul("bf16") or gpu.matmul("fp16"),
        "fp8": gpu.matmul("fp8"),
        "int8": gpu.matmul("int8"),
        "fp4": gpu.matmul("fp4"),
    }
    if found["16bit"] is None:
        return {}
    return {name: rate * 1e12 for name, rate in found.items() if rate is not None}


def _link(rig: Rig) -> Link:
    fabric = rig.link.kind in ("nvlink", "fabric") or (
        rig.link.kind == "unknown" and slowest(rig).gpu.category == "datacenter"
    )
    gbs = rig.link.gbs_per_direction or (_FABRIC_GBS if fabric else _UNKNOWN_LINK_GBS)
    devices = len(rig.devices) if rig.nodes > 1 else None
    return Link("nvlink" if fabric else "pcie", gbs * 1e9, devices)
