"""The rig of this machine, asked through NVML or AMD's driver: no CUDA context, no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hardware_db.amdgpu import NAMES, SYS, AmdCard, card_name, read_amd_cards
from hardware_db.detect_amd import amd_rig
from hardware_db.errors import NoGpuDetected, quoted
from hardware_db.gpu import Gpu
from hardware_db.host import HostMemory, host_memory, runs_under_wsl
from hardware_db.link import NO_LINK, Link, default_link, nvlink, pcie_link
from hardware_db.live import live_device
from hardware_db.nvml import NvmlCard, joined_by_nvlink, read_cards
from hardware_db.rig import Rig, unique
from hardware_db.rig_text import WSL_NOTE, rig_spec
from hardware_db.visible import Unit, visible_units

_ADVICE = "name one with --gpu, for example --gpu 4090"


class Machine(Struct, frozen=True):
    """What is asked for the rig; tests put a fake here."""

    nvml: Any
    """The module ``pynvml`` of nvidia-ml-py; None where it is not installed."""
    environ: Mapping[str, str]
    host: HostMemory | None
    wsl: bool = False
    amd: tuple[AmdCard, ...] = ()
    amd_names: Mapping[int, str] = {}
    """Of AMD's cards, by index."""


def detect_rig(machine: Machine | None = None, visible: str | None = None) -> Rig:
    """The GPUs of this machine that CUDA would show, as one node; without any, those of HIP.

    ``visible`` is what CUDA_VISIBLE_DEVICES is to be, where it is not what it is now.

    Totals are those torch will see: NVML total minus reserved on Linux, the system's memory where
    GPU and CPU share it. Raises :class:`NoGpuDetected`, which says what to do instead.
    """
    machine = machine or _this_machine()
    if visible is not None:
        environ = {**machine.environ, "CUDA_VISIBLE_DEVICES": visible}
        environ.pop("HIP_VISIBLE_DEVICES", None)
        machine = replace(machine, environ=environ)
    if machine.amd and not _has_nvidia(machine.nvml):
        return amd_rig(machine.amd, machine.amd_names, machine.environ, machine.host)
    return _nvidia_rig(machine)


def _has_nvidia(nvml: Any) -> bool:
    if nvml is None:
        return False
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return False
    try:
        return bool(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError:
        return False
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _nvidia_rig(machine: Machine) -> Rig:
    nvml = machine.nvml
    if nvml is None:
        raise NoGpuDetected(f"nvidia-ml-py is not installed here; {_ADVICE}")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        what = f"No NVIDIA driver answers here ({error}), and no AMD GPU is seen"
        raise NoGpuDetected(f"{what}; {_ADVICE}") from None
    try:
        return _detect(machine)
    except nvml.NVMLError as error:
        raise NoGpuDetected(f"The NVIDIA driver fails here ({error}); {_ADVICE}") from None
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _this_machine() -> Machine:
    try:
        import pynvml
    except ImportError:
        pynvml = None
    cards = tuple(read_amd_cards(SYS))
    names = {card.index: name for card in cards if (name := card_name(card, NAMES)) is not None}
    return Machine(pynvml, os.environ, host_memory(), runs_under_wsl(), cards, names)


def _detect(machine: Machine) -> Rig:
    cards, notes = read_cards(machine.nvml)
    units = _visible(cards, machine.environ.get("CUDA_VISIBLE_DEVICES"))
    devices = []
    for unit in units:
        device, said = live_device(unit, machine.host, machine.wsl)
        devices.append(device)
        notes += [f"GPU {unit[0].index}: {note}" for note in said]
    mixed = len({card.name for card, _ in units}) > 1
    if mixed and machine.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        notes.append(
            "CUDA numbers different cards its own way; CUDA_DEVICE_ORDER=PCI_BUS_ID makes it agree "
            "with nvidia-smi"
        )
    if machine.wsl:
        notes.append(WSL_NOTE)
    link, bridged, note = _link(machine.nvml, units, [device.gpu for device in devices])
    return Rig(
        nodes=1,
        devices=tuple(devices),
        link=link,
        spec=rig_spec(1, devices, bridged),
        notes=unique([*notes, note]),
        host_memory_bytes=None if machine.host is None else machine.host.total_bytes,
    )


def _visible(cards: list[NvmlCard], selection: str | None) -> list[Unit]:
    if not cards:
        raise NoGpuDetected(f"No NVIDIA GPU answers here; {_ADVICE}")
    if units := visible_units(cards, selection):
        return units
    if selection is None:
        raise NoGpuDetected(f"MIG is on, but no GPU has an instance; create one, or {_ADVICE}")
    what = f"CUDA_VISIBLE_DEVICES={quoted(selection)} shows none of the GPUs here ({len(cards)})"
    raise NoGpuDetected(f"{what}; change it, or {_ADVICE}")


def _link(nvml: Any, units: list[Unit], gpus: list[Gpu]) -> tuple[Link, bool, str | None]:
    """The link, whether it is a bridge that the rig's text must mention, and a note."""
    if len(units) == 1:
        return NO_LINK, False, None
    if any(instance is not None for _, instance in units):
        return Link("none", None, "MIG"), False, "MIG instances cannot work together on one model"
    cards = [card for card, _ in units]
    every, some = joined_by_nvlink(nvml, cards)
    if every:
        first = gpus[0].nvlink
        return nvlink(gpus[0]), first is None or first.bridge, None
    note = "NVLink joins only some of the GPUs; all together talk over PCIe" if some else None
    link = default_link(gpus)
    if link.kind not in ("unknown", "fabric"):
        slots = [card.pcie or gpu.pcie for card, gpu in zip(cards, gpus, strict=True)]
        link = pcie_link(slots)
    return link, False, note
