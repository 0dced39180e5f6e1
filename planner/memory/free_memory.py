"""What is free on the device when vLLM takes its snapshot, and whether that is what it asks for.

`v1/worker/gpu_worker.py` refuses to start where less is free than gpu_memory_utilization asks for.
Its own CUDA context, and NCCL's, are there by then.
"""

from __future__ import annotations

from hardware_db import Device
from planner.calibration import Term, in_use
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release
from planner.memory.constants import GIB, constant
from planner.quantity import Basis, Quantity


def device_total(slot: Device) -> Quantity:
    """The device's memory as vLLM reads it."""
    assert slot.total_bytes is not None
    memory = slot.gpu.memory
    low, high = memory.total_low_bytes, memory.total_high_bytes
    if slot.live or low is None or high is None or low == high:  # measured, or given
        basis = Basis.MEASURED if slot.live else Basis.EXACT
        return Quantity(slot.total_bytes, slot.total_bytes, slot.total_bytes, basis, "device")
    basis = Basis.CALIBRATED if memory.basis == "observed" else Basis.ESTIMATED
    return Quantity(
        slot.total_bytes,
        min(low, slot.total_bytes),
        max(high, slot.total_bytes),
        basis,
        f"{memory.basis} total of {slot.gpu.name}",
    )


def taken_at_start(
    slot: Device, device: DeviceFacts, release: Release, tensor_parallel_size: int
) -> Quantity:
    """What vLLM's own context takes by then, and what others do.

    That is what is kept for other programs, and where what is free was not given: Windows' part
    under WSL, and the operating system's where GPU and CPU share their memory.
    """
    taken = Quantity.exact(slot.reserve_bytes)
    if device.platform is Platform.CPU:
        return taken
    if slot.free_bytes is None and slot.wsl:
        taken = taken + constant("wsl_gib", release).times(GIB)
    if slot.free_bytes is None and slot.gpu.memory.unified and slot.gpu.vendor == "nvidia":
        taken = taken + constant("unified_system_share", release).times(slot.total_bytes or 0)
    return taken + context(release, tensor_parallel_size, slot.gpu.slug)


def context(release: Release, tensor_parallel_size: int, gpu: str) -> Quantity:
    """Bytes of the CUDA context and library handles, and of NCCL where there are several ranks."""
    taken, subject = constant("context_gib", release), "one rank"
    if tensor_parallel_size > 1:
        taken, subject = taken + constant("context_tp_gib", release), "several ranks"
    return in_use().correct(Term.CONTEXT, subject, taken.times(GIB), gpu, release)


def free_at_start(slot: Device, taken: Quantity) -> Quantity:
    """Free memory at the snapshot."""
    if slot.free_bytes is None:
        return device_total(slot) - taken
    basis = Basis.MEASURED if slot.live else Basis.EXACT
    free = Quantity(slot.free_bytes, slot.free_bytes, slot.free_bytes, basis, "free memory")
    return free - taken


def start_margin(slot: Device, taken: Quantity, utilization: float) -> Quantity:
    """What is free beyond the share of the device that is asked for; below 0 vLLM refuses.

    Both follow from the same total, so its uncertainty counts for the difference alone.
    """
    if slot.free_bytes is None:
        return device_total(slot).times(1 - utilization) - taken
    return free_at_start(slot, taken) - device_total(slot).times(utilization)
