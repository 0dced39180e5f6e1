"""The rig of AMD's GPUs of this machine, by what their driver tells: no HIP context, no ROCm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from hardware_db.amdgpu import AmdCard
from hardware_db.catalogue import GpuMatch, match_gpu
from hardware_db.custom import custom_gpu
from hardware_db.errors import NoGpuDetected, quoted
from hardware_db.gpu import memory_of
from hardware_db.host import HostMemory
from hardware_db.link import default_link
from hardware_db.rig import Device, Rig, sized, unique
from hardware_db.rig_text import rig_spec
from hardware_db.units import GIB, gib

_TOO_SMALL: Final = 4 * GIB  # the graphics of a processor, of which vLLM can make nothing
_ADVICE: Final = "name one with --gpu, for example --gpu mi300x"


def amd_rig(
    cards: Sequence[AmdCard],
    names: Mapping[int, str],
    environ: Mapping[str, str],
    host: HostMemory | None,
) -> Rig:
    """The cards that HIP would show, as one node. ``names`` are libdrm's, by index.

    Raises :class:`NoGpuDetected`.
    """
    devices: list[Device] = []
    notes: list[str] = []
    small: list[str] = []
    for card in _visible(cards, environ):
        name = names.get(card.index, f"AMD GPU {card.pci_id}")
        if card.partition is not None:
            raise NoGpuDetected(
                f"GPU {card.index} ({name}) is split into several devices ({card.partition}), "
                "which cannot be told apart here; describe one with --gpu custom:..."
            )
        match = _match(card, names.get(card.index))
        if match is None and (card.total or 0) < _TOO_SMALL:
            size = "of a memory not known" if card.total is None else f"with {gib(card.total)}"
            small.append(f"GPU {card.index}, {name} {size},")
            continue
        device, said = _device(card, name, match, host)
        devices.append(device)
        notes += [f"GPU {card.index}: {said}"] if said else []
    if not devices:
        raise NoGpuDetected(f"{' '.join(small)} is too small for vLLM; {_ADVICE}")
    notes += [f"{one} is left out; HIP_VISIBLE_DEVICES hides it from vLLM, too" for one in small]
    return Rig(
        nodes=1,
        devices=tuple(devices),
        link=default_link([device.gpu for device in devices]),
        spec=rig_spec(1, devices),
        notes=unique(notes),
        host_memory_bytes=None if host is None else host.total_bytes,
    )


def _match(card: AmdCard, name: str | None) -> GpuMatch | None:
    """The card in the catalogue: by its name if several share its PCI id, else by that."""
    for text in (name, card.pci_id):
        match = None if text is None else match_gpu(text)
        if text is None or match is None:
            continue
        known = match.gpu.pci_ids
        if known and card.pci_id not in known:  # many are called "AMD Radeon Graphics"
            continue
        if match.gpu.memory.unified or card.total is None:
            return match
        return match_gpu(text, memory_bytes=card.total)
    return None


def _device(
    card: AmdCard, name: str, match: GpuMatch | None, host: HostMemory | None
) -> tuple[Device, str]:
    """The device, and a note on what was assumed about it, or none."""
    total = card.total
    if match is None:
        shared = total is not None and card.vram is not None and total > card.vram
        gpu = custom_gpu(
            name,
            memory_of(total, "live", nvml_total_bytes=total, unified=shared),
            bandwidth_gbs=None,
            compute_capability=None,
            rates=None,
        )
        gpu = replace(
            gpu, vendor="amd", gfx=card.gfx, reported_names=(name,), pci_ids=(card.pci_id,)
        )
        note = f"{quoted(name)} is not in the catalogue: its bandwidth and rates are not known"
    else:
        gpu, note = match.gpu, match.note or ""
        if total is not None:
            gpu = sized(gpu, total, "live", total)
    if total is None:
        table = gpu.memory.total_bytes
        note = "its memory cannot be read" + (", the table's is taken" if table else "")
        return Device(gpu, table, index=card.index), note
    free = None if card.used is None else max(0, total - card.used)
    if free is not None and gpu.memory.unified and host is not None:
        free = min(free, host.available_bytes)
    return Device(gpu, total, free, index=card.index, live=True), note


def _visible(cards: Sequence[AmdCard], environ: Mapping[str, str]) -> list[AmdCard]:
    """ROCR_VISIBLE_DEVICES takes away first; HIP's, or else CUDA's, numbers what is left."""
    shown = list(cards)
    hip = "HIP_VISIBLE_DEVICES" if environ.get("HIP_VISIBLE_DEVICES") else "CUDA_VISIBLE_DEVICES"
    for name in ("ROCR_VISIBLE_DEVICES", hip):
        selection = environ.get(name)
        if selection:
            shown = _selected(shown, selection)
        if not shown:
            what = f"{name}={quoted(selection or '')} shows none of the GPUs here ({len(cards)})"
            raise NoGpuDetected(f"{what}; change it, or {_ADVICE}")
    return shown


def _selected(cards: Sequence[AmdCard], selection: str) -> list[AmdCard]:
    """The first entry that fits nothing ends the list, as "-1" does."""
    chosen: list[AmdCard] = []
    for entry in map(str.strip, selection.split(",")):
        if entry.isdecimal():
            found = [card for place, card in enumerate(cards) if place == int(entry)]
        else:
            found = [card for card in cards if card.uuid and card.uuid == entry]
        if not found:
            break
        chosen += [card for card in found if card not in chosen]
    return chosen
