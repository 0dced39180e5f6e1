"""Rigs as text: "2x3090+nvlink", "2x8xh100-sxm", "4090+3090", "4090+wsl", "auto".

rig   = [nodes "x"] group { "+" group } [ "+nvlink" ] [ "+wsl" ]
group = [count "x"] device
device = name [":" usable memory] | "custom:" ... | "cpu" [":" memory ["@" GB/s] {"," instruction}]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from hardware_db.catalogue import find_gpu, match_gpu
from hardware_db.cpu import cpu_flags, cpu_memory
from hardware_db.custom import cpu_gpu, cpu_text, custom_text, parse_cpu, parse_custom
from hardware_db.errors import HardwareError, InvalidRig, UnknownGpu, quoted
from hardware_db.gpu import Gpu, memory_of
from hardware_db.link import Link, default_link, nvlink
from hardware_db.rig import Device, Rig, sized, unique
from hardware_db.units import exact_size, gib, parse_size

_LONGEST = 400
_MOST = 1024  # GPUs of a node, and nodes: far above any real machine, far below a typo's harm
_TIMES = "[xX×*]"
WSL_NOTE = "WSL: Windows takes some 1.3 GiB of each card before vLLM starts"


class _Group(Struct, frozen=True):
    factors: tuple[int, ...]
    """[count], or [nodes, count], as written."""
    device: Device
    note: str | None = None


def find_rig(
    text: str,
    *,
    free_memory: str | int | None = None,
    reserve: str | int | None = None,
    visible: str | None = None,
) -> Rig:
    """The rig that ``text`` describes; see the grammar above. "auto" asks this machine.

    ``free_memory`` is what is free on each card before vLLM starts, and ``reserve`` what to keep
    for other programs on each, both as bytes or as text ("22GiB"). Of this machine's GPUs it takes
    the ``visible`` ones, as CUDA_VISIBLE_DEVICES names them, instead of what that is now.
    Raises :class:`InvalidRig`, ``UnknownGpu`` or ``NoGpuDetected``: all :class:`HardwareError`, one
    line each.
    """
    text = text.strip()
    if text.casefold() == "auto":
        from hardware_db.detect import detect_rig

        rig = detect_rig(visible=visible)
    else:
        rig = _parse(text)
    free, kept = _size("free memory", free_memory), _size("reserve", reserve)
    if free is None and kept is None:
        return rig
    devices = tuple(_with_sizes(device, free, kept) for device in rig.devices)
    return replace(rig, devices=devices)


def rig_spec(nodes: int, devices: Sequence[Device], bridged: bool = False) -> str:
    """Canonical text of a rig."""
    groups = []
    for text, same in groupby(map(_device_text, devices)):
        count = len(list(same))
        groups.append(text if count == 1 and nodes == 1 else f"{count}x{text}")
    times = f"{nodes}x" if nodes > 1 else ""
    wsl = "+wsl" if devices[0].wsl else ""
    return times + "+".join(groups) + ("+nvlink" if bridged else "") + wsl


def _parse(text: str) -> Rig:
    if not text:
        raise _invalid(text, "names no GPU")
    if len(text) > _LONGEST or not text.isprintable():
        raise _invalid(text, f"is not one printable line of up to {_LONGEST} characters")
    body, windows = re.subn(r"\s*\+\s*wsl2?$", "", text, flags=re.IGNORECASE)
    body, bridged = re.subn(r"\s*\+\s*nvlink$", "", body, flags=re.IGNORECASE)
    groups = _groups(body, text)
    nodes, devices, notes = _lay_out(text, groups)
    gpus = [device.gpu for device in devices]
    link = default_link(gpus)
    if bridged:
        link, note = _bridged(text, gpus, link)
        notes.append(note)
    if windows:
        devices = [_under_windows(device, text) for device in devices]
        notes.append(WSL_NOTE)
    return Rig(
        nodes=nodes,
        devices=tuple(devices),
        link=link,
        spec=rig_spec(nodes, devices, bool(bridged)),
        notes=unique(notes),
        host_memory_bytes=devices[0].total_bytes if gpus[0].vendor == "cpu" else None,
    )


def _lay_out(text: str, groups: Sequence[_Group]) -> tuple[int, list[Device], list[str | None]]:
    """How many nodes, the devices of one, and notes."""
    notes = [group.note for group in groups]
    alone = len(groups) == 1 and not groups[0].factors
    if not alone and any(group.device.gpu.vendor == "cpu" for group in groups):
        raise _invalid(text, "wants more than the CPU, which runs alone", "cpu:64GiB")
    if len(groups) > 1:
        if any(len(group.factors) > 1 for group in groups):
            raise _invalid(text, "has both nodes and different cards; all nodes must be equal")
        devices = [d for group in groups for d in [group.device] * (*group.factors, 1)[0]]
        return 1, devices, notes
    nodes, count = (1, 1, *groups[0].factors)[-2:]
    device = groups[0].device
    if device.gpu.category == "soc" and nodes == 1 and count > 1:
        nodes, count = count, 1
        notes.append(f"each {device.gpu.name} is a machine of its own: {nodes} nodes of one GPU")
    return nodes, [device] * count, notes


def _groups(body: str, whole: str) -> list[_Group]:
    """The parts between "+"; a name may hold one itself ("Ryzen AI Max+ 395")."""
    parts = [part.strip() for part in body.split("+")]
    split = not all(parts) or any(map(_names_gpu, parts)) or not _names_gpu(body)
    return [_group(part, whole) for part in (parts if split else [body])]


def _names_gpu(text: str) -> bool:
    return match_gpu(re.sub(rf"^(?:[0-9]+\s*{_TIMES}\s*)+", "", text)) is not None


def _group(text: str, whole: str) -> _Group:
    factors: list[int] = []
    while (device := _device(text)) is None:
        # Only now a number before an "x" is a count: "7900xtx" is a card.
        match = re.fullmatch(rf"([0-9]{{1,9}})\s*{_TIMES}\s*(.*)", text)
        if match is None:
            raise _no_device(text, whole)
        factors.append(int(match[1]))
        text = match[2]
    if len(factors) > 2:
        raise _invalid(whole, "has more numbers than nodes x GPUs", "2x8xh100-sxm")
    for factor in factors:
        if not 1 <= factor <= _MOST:
            raise _invalid(whole, f"asks for {factor} of something; 1 to {_MOST} can be planned")
    return _Group(tuple(factors), *device)


def _device(text: str) -> tuple[Device, str | None] | None:
    """The device that ``text`` without a count names, with a note; None if it names none."""
    kind, colon, rest = text.partition(":")
    kind = kind.strip().casefold()
    if kind == "custom":
        gpu = parse_custom(rest)
        return Device(gpu, gpu.memory.total_bytes), None
    if kind == "cpu":
        if colon:
            gpu = parse_cpu(rest)
            return Device(gpu, gpu.memory.total_bytes), None
        return _this_cpu(), None
    if not text.endswith(":") and (match := match_gpu(text)) is not None:
        return Device(match.gpu, match.gpu.memory.total_bytes), match.note
    name, colon, size = text.rpartition(":")
    if not colon or match_gpu(name) is None:
        return None
    try:
        total = parse_size(size)
    except ValueError as error:
        raise _invalid(text, f"gives no memory: {error}", "rtx-4090:23.5GiB") from None
    match = find_gpu(name, memory_bytes=total)
    return Device(sized(match.gpu, total, "given"), total), match.note


def _this_cpu() -> Device:
    host = cpu_memory()
    total = None if host is None else host.total_bytes
    memory = memory_of(total, "live", type="system", unified=True)
    free = None if host is None else host.available_bytes
    return Device(cpu_gpu(memory, flags=cpu_flags()), total, free_bytes=free, live=host is not None)


def _no_device(text: str, whole: str) -> HardwareError:
    """The error for a part of ``whole`` that is neither a device nor a count and a device."""
    if not text.strip(" :*x×X"):
        return _invalid(whole, "lacks the name of a GPU")
    count, *name = re.split(_TIMES, text, maxsplit=1)
    if name and match_gpu(name[0]) is not None:
        return _invalid(whole, f"has no whole number before {quoted(text[len(count) :])}")
    try:
        find_gpu(text)
    except UnknownGpu as error:
        return error
    raise AssertionError(f"{text!r} is a device")


def _bridged(text: str, gpus: list[Gpu], link: Link) -> tuple[Link, str | None]:
    first = gpus[0]
    if len(gpus) == 1:
        raise _invalid(text, "has one GPU per node, so nothing to link")
    if any(gpu.slug != first.slug for gpu in gpus):
        raise _invalid(text, "mixes cards, which NVLink does not join")
    none = first.nvlink is not None and not first.nvlink.generation
    if none or first.vendor not in ("nvidia", "custom"):
        raise _invalid(text, f"asks for NVLink, but the {first.name} has none", "2x3090+nvlink")
    if first.nvlink is None:
        note = f"whether the {first.name} has NVLink, and how fast, is not in the catalogue"
        return nvlink(first), note
    if first.nvlink.bridge and len(gpus) > 2:
        return link, f"NVLink bridges join pairs of {first.name}; all together talk over PCIe"
    return nvlink(first), None


def _under_windows(device: Device, text: str) -> Device:
    """The device as torch sees it in WSL, where the driver hides no reserve from the total."""
    gpu = device.gpu
    if gpu.vendor != "nvidia" or gpu.memory.unified:
        raise _invalid(text, f"asks for WSL, where vLLM knows no {gpu.name}", "4090+wsl")
    total = device.total_bytes
    if total is not None and total == gpu.memory.total_bytes and gpu.memory.nvml_total_bytes:
        total = gpu.memory.nvml_total_bytes
    return replace(device, total_bytes=total, wsl=True)


def _device_text(device: Device) -> str:
    gpu, total = device.gpu, device.total_bytes
    if gpu.vendor == "cpu":
        return cpu_text(gpu, total)
    stock = match_gpu(gpu.slug)
    if stock is None:
        return custom_text(gpu, total)
    if total is None or total == stock.gpu.memory.total_bytes:
        return gpu.slug
    if device.wsl and total == stock.gpu.memory.nvml_total_bytes:
        return gpu.slug
    return f"{gpu.slug}:{exact_size(total)}"


def _size(what: str, value: str | int | None) -> int | None:
    if value is None or str(value).strip() == "0":
        return value if value is None else 0
    try:
        return parse_size(str(value))
    except ValueError as error:
        raise InvalidRig(f"The {what} {error}; write for example 22GiB") from None


def _with_sizes(device: Device, free: int | None, reserve: int | None) -> Device:
    total = device.total_bytes
    for what, size in (("free memory", free), ("reserve", reserve)):
        if size is not None and total is not None and size > total:
            raise InvalidRig(
                f"The {what} of {gib(size)} is more than the {gib(total)} of the {device.gpu.name}"
            )
    return replace(
        device,
        free_bytes=device.free_bytes if free is None else free,
        reserve_bytes=device.reserve_bytes if reserve is None else reserve,
    )


def _invalid(text: str, why: str, example: str = "2x3090") -> InvalidRig:
    return InvalidRig(f"{quoted(text)} {why}; write for example {example}")
