"""What NVML says about the local cards, as plain values.

Functions take the NVML module (``pynvml`` of nvidia-ml-py) as their first argument. NVML answers
"not supported" or "no permission" to nearly anything somewhere, so every question but the count is
optional: None means that NVML does not say.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from msgspec import Struct

from hardware_db.gpu import Pcie


class NvmlMemory(Struct, frozen=True):
    """Bytes. ``reserved`` is what the driver keeps; only the v2 query tells."""

    total: int
    free: int
    reserved: int | None


class MigSlice(Struct, frozen=True):
    """One MIG instance."""

    uuid: str
    name: str
    memory: NvmlMemory | None
    sm_count: int | None


class NvmlCard(Struct, frozen=True):
    """One physical card."""

    index: int
    uuid: str
    name: str
    pci_id: str | None
    compute_capability: tuple[int, int] | None
    memory: NvmlMemory | None
    bus_width_bits: int | None
    memory_clock_mhz: int | None
    pcie: Pcie | None
    ats: bool
    """It shares the CPU's page tables (Grace, GB10): coherent or unified memory."""
    mig: tuple[MigSlice, ...] | None
    """The instances; None if MIG is off."""
    handle: Any = None


def read_cards(nvml: Any) -> tuple[list[NvmlCard], list[str]]:
    """All cards that answer, in NVML's (PCI) order, and a note for each that does not."""
    cards, notes = [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            cards.append(_read(nvml, handle, index))
        except nvml.NVMLError as error:
            notes.append(f"GPU {index} does not answer ({error}) and is left out")
    return cards, notes


def joined_by_nvlink(nvml: Any, cards: list[NvmlCard]) -> tuple[bool, bool]:
    """Whether NVLink joins (every, any) pair of ``cards``."""
    pairs = [
        _ask(
            nvml,
            "nvmlDeviceGetP2PStatus",
            one.handle,
            other.handle,
            nvml.NVML_P2P_CAPS_INDEX_NVLINK,
        )
        == nvml.NVML_P2P_STATUS_OK
        for one, other in combinations(cards, 2)
    ]
    return bool(pairs) and all(pairs), any(pairs)


def _read(nvml: Any, handle: Any, index: int) -> NvmlCard:
    pci = _ask(nvml, "nvmlDeviceGetPciInfo", handle)
    capability = _ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    return NvmlCard(
        index=index,
        uuid=_text(_ask(nvml, "nvmlDeviceGetUUID", handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        pci_id=None if pci is None else _pci_id(pci.pciDeviceId),
        compute_capability=None if capability is None else tuple(capability),
        memory=read_memory(nvml, handle),
        bus_width_bits=_ask(nvml, "nvmlDeviceGetMemoryBusWidth", handle),
        memory_clock_mhz=_ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
        pcie=_pcie(nvml, handle),
        ats=_ask(nvml, "nvmlDeviceGetAddressingMode", handle)
        == getattr(nvml, "NVML_DEVICE_ADDRESSING_MODE_ATS", 2),
        mig=_mig(nvml, handle),
        handle=handle,
    )


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError):  # AttributeError: an older nvidia-ml-py
        return None


def read_memory(nvml: Any, handle: Any) -> NvmlMemory | None:
    """The memory of a card or an instance; None if NVML does not say."""
    try:
        v2 = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
        return NvmlMemory(v2.total, v2.free, v2.reserved)
    except (nvml.NVMLError, AttributeError, TypeError):  # an older driver or nvidia-ml-py
        v1 = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
        return None if v1 is None else NvmlMemory(v1.total, v1.free, None)


def _pcie(nvml: Any, handle: Any) -> Pcie | None:
    # An idle card lowers the generation, not the width: the current width shows a x8 slot.
    generation = _ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle)
    lanes = _ask(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle)
    lanes = lanes or _ask(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle)
    return Pcie(generation, lanes) if generation and lanes else None


def _mig(nvml: Any, handle: Any) -> tuple[MigSlice, ...] | None:
    mode = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return None
    slices = []
    for index in range(_ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        instance = _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if instance is None:
            continue
        attributes = _ask(nvml, "nvmlDeviceGetAttributes", instance)
        slices.append(
            MigSlice(
                uuid=_text(_ask(nvml, "nvmlDeviceGetUUID", instance)),
                name=_text(_ask(nvml, "nvmlDeviceGetName", instance)),
                memory=read_memory(nvml, instance),
                sm_count=None if attributes is None else attributes.multiprocessorCount,
            )
        )
    return tuple(slices)


def _pci_id(device_and_vendor: int) -> str:
    return f"{device_and_vendor & 0xFFFF:04x}:{device_and_vendor >> 16:04x}"


def _text(value: str | bytes | None) -> str:
    """Older bindings return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
