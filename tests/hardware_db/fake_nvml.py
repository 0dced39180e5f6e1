"""A stand-in for the module ``pynvml``: the functions that detection calls, over made-up cards.

It raises nvidia-ml-py's own errors and fills its own structures; ``test_gpu_detection`` checks that
the signatures are those of the installed module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pynvml

MIB = 2**20


@dataclass(eq=False)
class Slice:
    """A MIG instance."""

    profile: str
    total_mib: int
    sms: int
    uuid: str = "MIG-00000000-0000-0000-0000-000000000000"
    reserved_mib: int = 0
    used_mib: int = 0


@dataclass(eq=False)
class Card:
    """A physical card as its driver answers; None: NVML says "not supported"."""

    name: str | bytes
    total_mib: int | None
    reserved_mib: int = 0
    used_mib: int = 0
    pci_id: str = "10de:0000"
    cc: tuple[int, int] = (8, 9)
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    bus_bits: int | None = None
    memory_mhz: int | None = None
    pcie: tuple[int, int] | None = (4, 16)
    slot_lanes: int | None = None
    ats: bool = False
    mig: list[Slice] | None = None
    memory_error: int = pynvml.NVML_ERROR_NOT_SUPPORTED
    memory_v2: bool = True
    lost: bool = False
    milliwatts: int | None = None
    linked: set[Card] = field(default_factory=set)


def link(*cards: Card) -> None:
    """Put NVLink between every pair of ``cards``."""
    for card in cards:
        card.linked |= {*cards} - {card}


class FakeNvml:
    """Counts initialisations; a call outside one fails as the real one does."""

    NVMLError = pynvml.NVMLError
    nvmlMemory_v2 = pynvml.nvmlMemory_v2
    NVML_CLOCK_MEM = pynvml.NVML_CLOCK_MEM
    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE
    NVML_DEVICE_ADDRESSING_MODE_ATS = pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS
    NVML_P2P_CAPS_INDEX_NVLINK = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    NVML_P2P_STATUS_OK = pynvml.NVML_P2P_STATUS_OK

    def __init__(self, *cards: Card, init_error: int | None = None, count_error: int | None = None):
        self.cards = cards
        self.init_error = init_error
        self.count_error = count_error
        self.open = 0
        self.inits = 0

    def nvmlInit(self) -> None:
        _fail_if(self.init_error)
        self.open += 1
        self.inits += 1

    def nvmlShutdown(self) -> None:
        self._check()
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._check()
        _fail_if(self.count_error)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        self._check()
        if index >= len(self.cards):
            _fail_if(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if self.cards[index].lost:
            _fail_if(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Card | Slice:
        self._check()
        everything = [each for card in self.cards for each in (card, *(card.mig or ()))]
        for each in everything:
            if each.uuid == uuid:
                return each
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetName(self, handle: Card | Slice) -> str | bytes:
        self._check()
        if isinstance(handle, Slice):
            parent = next(card for card in self.cards if handle in (card.mig or ()))
            return f"{parent.name} MIG {handle.profile}"
        return handle.name

    def nvmlDeviceGetUUID(self, handle: Card | Slice) -> str:
        self._check()
        return handle.uuid

    def nvmlDeviceGetPciInfo(self, handle: Card) -> Any:
        self._check()
        vendor, device = handle.pci_id.split(":")
        info = pynvml.nvmlPciInfo_t()
        info.pciDeviceId = int(device, 16) << 16 | int(vendor, 16)
        return info

    def nvmlDeviceGetCudaComputeCapability(self, handle: Card) -> tuple[int, int]:
        self._check()
        return handle.cc

    def nvmlDeviceGetMemoryInfo(self, handle: Card | Slice, version: int | None = None) -> Any:
        self._check()
        if handle.total_mib is None:
            _fail_if(handle.memory_error)
            raise AssertionError
        used = handle.used_mib * MIB
        free = (handle.total_mib - handle.reserved_mib) * MIB - used
        total = handle.total_mib * MIB
        if version is None:
            return pynvml.c_nvmlMemory_t(total, free, total - free)
        if isinstance(handle, Card) and not handle.memory_v2:
            _fail_if(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        assert version == pynvml.nvmlMemory_v2
        reserved = handle.reserved_mib * MIB
        return pynvml.c_nvmlMemory_v2_t(version, total, reserved, free, used)

    def nvmlDeviceGetMemoryBusWidth(self, device: Card) -> int:
        self._check()
        return _supported(device.bus_bits)

    def nvmlDeviceGetMaxClockInfo(self, handle: Card, type: int) -> int:
        self._check()
        assert type == pynvml.NVML_CLOCK_MEM
        return _supported(handle.memory_mhz)

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: Card) -> int:
        self._check()
        return _supported(handle.pcie and handle.pcie[0])

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: Card) -> int:
        self._check()
        return _supported(handle.pcie and handle.pcie[1])

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Card) -> int:
        self._check()
        return _supported(handle.slot_lanes or (handle.pcie and handle.pcie[1]))

    def nvmlDeviceGetPowerUsage(self, handle: Card | Slice) -> int:
        self._check()
        if isinstance(handle, Slice):  # power is the card's
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return _supported(handle.milliwatts)

    def nvmlDeviceGetAddressingMode(self, device: Card) -> int:
        self._check()
        mode = pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS
        return mode if device.ats else pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE

    def nvmlDeviceGetP2PStatus(self, device1: Card, device2: Card, p2pIndex: int) -> int:
        self._check()
        assert p2pIndex == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        ok = device2 in device1.linked
        return pynvml.NVML_P2P_STATUS_OK if ok else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED

    def nvmlDeviceGetMigMode(self, device: Card) -> list[int]:
        self._check()
        _supported(None if device.mig is None else 1)
        return [pynvml.NVML_DEVICE_MIG_ENABLE] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Card) -> int:
        self._check()
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Card, index: int) -> Slice:
        self._check()
        if device.mig is None or index >= len(device.mig):
            _fail_if(pynvml.NVML_ERROR_NOT_FOUND)
        assert device.mig is not None
        return device.mig[index]

    def nvmlDeviceGetAttributes(self, device: Slice) -> Any:
        self._check()
        attributes = pynvml.c_nvmlDeviceAttributes()
        attributes.multiprocessorCount = device.sms
        attributes.memorySizeMB = device.total_mib
        return attributes

    def _check(self) -> None:
        if not self.open:
            _fail_if(pynvml.NVML_ERROR_UNINITIALIZED)


def _fail_if(code: int | None) -> None:
    if code is not None:
        raise pynvml.NVMLError(code)


def _supported(value: int | None) -> int:
    if value is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value
