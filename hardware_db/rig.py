"""Rig: the GPUs of one or more equal nodes and how they are linked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from hardware_db.catalogue import fits_memory
from hardware_db.gpu import Gpu, MemoryBasis, memory_of
from hardware_db.link import Link
from hardware_db.units import gib


class Device(Struct, frozen=True):
    """One GPU of a rig. Sizes in bytes; None means not known."""

    gpu: Gpu
    total_bytes: int | None
    """What torch sees as total: asked live, given, or the table's ``gpu.memory.total_bytes``."""
    free_bytes: int | None = None
    """What is free before vLLM starts."""
    reserve_bytes: int = 0
    """What to leave to others (the desktop); not yet taken off ``free_bytes``."""
    index: int | None = None
    """The index that ``nvidia-smi`` shows, for a detected GPU."""
    instance: str | None = None
    """The UUID of a detected MIG instance."""
    live: bool = False
    """The sizes were asked from the machine."""
    wsl: bool = False
    """It is seen from Linux inside Windows, which takes a part of it."""


class Rig(Struct, frozen=True):
    """``nodes`` equal machines, each with ``devices`` joined by ``link``."""

    nodes: int
    devices: tuple[Device, ...]
    """The devices of one node."""
    link: Link
    spec: str
    """Canonical text; ``find_rig`` reads it back as the same rig (free memory aside)."""
    notes: tuple[str, ...] = ()
    """What was assumed, one sentence each; rigs are compared without."""
    host_memory_bytes: int | None = None
    """System memory of one node."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rig) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return (self.nodes, self.devices, self.link, self.spec, self.host_memory_bytes)

    @property
    def gpu_count(self) -> int:
        """GPUs in all nodes together."""
        return self.nodes * len(self.devices)

    @property
    def smallest(self) -> Device:
        """The device with the least memory: tensor parallelism splits evenly, so it bounds all."""
        known = [device for device in self.devices if device.total_bytes is not None]
        return min(known or self.devices, key=lambda device: device.total_bytes or 0)

    @property
    def mixed(self) -> bool:
        """Whether the GPUs are of different models."""
        return len({device.gpu.slug for device in self.devices}) > 1

    def describe(self) -> str:
        """One line for people: "2 × NVIDIA GeForce RTX 3090, 23.56 GiB each, PCIe 4.0 x16"."""
        groups = [list(same) for _, same in groupby(self.devices, key=_looks)]
        if len(groups) == 1:
            count, what, each = len(self.devices), *_looks(self.devices[0])
            cards = f"{count} × {what}, {each} each" if count > 1 else f"{what}, {each}"
        else:
            cards = " + ".join(
                (f"{len(same)} × " if len(same) > 1 else "") + "{} ({})".format(*_looks(same[0]))
                for same in groups
            )
        nodes = f"{self.nodes} nodes of " if self.nodes > 1 else ""
        link = "" if self.link.kind == "none" else f", {self.link.source}"
        return nodes + cards + link

    def missing_facts(self) -> tuple[str, ...]:
        """What planning lacks for this rig, in plain words; empty if nothing."""
        missing: dict[str, None] = {}
        for device in self.devices:
            if device.total_bytes is None:
                missing["usable memory"] = None
            facts = device.gpu.missing_facts()
            missing.update((fact, None) for fact in facts if fact != "usable memory")
        if self.link.kind != "none" and self.link.gbs_per_direction is None:
            missing["link between the GPUs"] = None
        if self.nodes > 1:
            missing["network between the nodes"] = None
        return tuple(missing)


def sized(
    gpu: Gpu, total_bytes: int, basis: MemoryBasis, nvml_total_bytes: int | None = None
) -> Gpu:
    """``gpu`` with ``total_bytes`` of usable memory: itself if a stock card may have that."""
    if fits_memory(gpu, nvml_total_bytes or total_bytes):
        return gpu
    memory = memory_of(
        total_bytes,
        basis,
        nvml_total_bytes=nvml_total_bytes,
        type=gpu.memory.type,
        unified=gpu.memory.unified,
    )
    return replace(gpu, memory=memory)


def unique(notes: Sequence[str | None]) -> tuple[str, ...]:
    """The notes there are, each once."""
    return tuple(dict.fromkeys(note for note in notes if note))


def _looks(device: Device) -> tuple[str, str]:
    total = device.total_bytes
    return device.gpu.name, "memory not known" if total is None else gib(total)
