"""What a machine has: every known GPU, and rigs of them.

Names are imported when first used, so ``import hardware_db`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardware_db.catalogue import GpuMatch, all_gpus, find_gpu
    from hardware_db.detect import detect_rig
    from hardware_db.errors import HardwareError, InvalidRig, NoGpuDetected, UnknownGpu
    from hardware_db.gpu import DenseRates, Gpu, GpuMemory, NvLink, Pcie, Price
    from hardware_db.link import Link
    from hardware_db.rig import Device, Rig
    from hardware_db.rig_text import find_rig

_HOMES = {
    "catalogue": ("GpuMatch", "all_gpus", "find_gpu"),
    "detect": ("detect_rig",),
    "errors": ("HardwareError", "InvalidRig", "NoGpuDetected", "UnknownGpu"),
    "gpu": ("DenseRates", "Gpu", "GpuMemory", "NvLink", "Pcie", "Price"),
    "link": ("Link",),
    "rig": ("Device", "Rig"),
    "rig_text": ("find_rig",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "DenseRates",
    "Device",
    "Gpu",
    "GpuMatch",
    "GpuMemory",
    "HardwareError",
    "InvalidRig",
    "Link",
    "NoGpuDetected",
    "NvLink",
    "Pcie",
    "Price",
    "Rig",
    "UnknownGpu",
    "all_gpus",
    "detect_rig",
    "find_gpu",
    "find_rig",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
