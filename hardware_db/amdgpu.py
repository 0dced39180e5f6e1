"""What the drivers of AMD's GPUs tell in sysfs (the kernel's documentation of amdgpu, amdkfd)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from hardware_db.usage import GpuMemory, GpuUsage

SYS: Final = Path("/sys")
# Which card a PCI id and a revision are, as libdrm ships it: "744C,\tC8,\tAMD Radeon RX 7900 XTX".
NAMES: Final = (
    Path("/usr/share/libdrm/amdgpu.ids"),
    Path("/opt/amdgpu/share/libdrm/amdgpu.ids"),
)
_AMD: Final = "0x1002"
_CARD = re.compile(r"card\d+")  # what has a connector behind it is one of its displays
_HEAPS: Final = (1, 2)  # of a GPU's own memory: HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC and _PRIVATE
_WHOLE: Final = ("", "SPX")  # not split into several devices


class AmdCard(Struct, frozen=True):
    """One card. Sizes in bytes; None means that the driver does not say."""

    index: int
    """As HIP numbers them with all to be seen."""
    pci_id: str
    revision: str
    uuid: str
    """As ROCR_VISIBLE_DEVICES takes it; empty where the card has none."""
    gfx: str | None
    total: int | None
    """What a program can have: of a chip that shares the CPU's memory more than is carved out."""
    vram: int | None
    used: int | None
    partition: str | None
    """How it is split into several devices ("CPX"), if it is."""
    watts: float | None


class _Node(Struct, frozen=True):
    """A GPU in the topology of the compute driver."""

    number: int
    minor: int
    gfx: str
    heap: int


def read_amd_cards(root: Path = SYS) -> list[AmdCard]:
    """The AMD GPUs of this machine that ROCm sees, in its order; without ROCm's driver all."""
    nodes = {node.minor: node for node in _nodes(root / "class" / "kfd" / "kfd" / "topology")}
    found: list[tuple[int, Path, _Node | None]] = []
    for place, device in enumerate(_devices(root / "class" / "drm")):
        minor = _minor(device)
        node = nodes.get(minor) if minor is not None else None
        if node is not None or not nodes:
            found.append((place if node is None else node.number, device, node))
    found.sort(key=lambda each: each[0])
    return [_read(index, device, node) for index, (_, device, node) in enumerate(found)]


def amd_usage(root: Path = SYS, indices: Collection[int] = ()) -> GpuUsage | None:
    """The AMD GPUs of this machine together, or those of some indices.

    None where there is none, or one does not say.
    """
    cards = [card for card in read_amd_cards(root) if not indices or card.index in indices]
    if not cards:
        return None
    gpus = []
    for card in cards:
        if card.used is None:
            return None
        if card.total is not None:
            gpus.append(GpuMemory(card.index, card.used, card.total))
    drawn = [card.watts for card in cards if card.watts is not None]
    watts = sum(drawn) if len(drawn) == len(cards) else None
    told = tuple(gpus) if len(gpus) == len(cards) else ()
    return GpuUsage(sum(card.used or 0 for card in cards), watts, told)


def card_name(card: AmdCard, files: Collection[Path] = NAMES) -> str | None:
    """What libdrm calls a card; None where it is not installed or does not know it."""
    device = card.pci_id.partition(":")[2]
    for file in files:
        for line in _text(file).splitlines():
            known, _, rest = line.partition(",")
            revision, _, name = rest.partition(",")
            if known.strip().lower() == device and revision.strip().lower() == card.revision:
                return name.strip() or None
    return None


def _read(index: int, device: Path, node: _Node | None) -> AmdCard:
    vram, used = _number(device / "mem_info_vram_total"), _number(device / "mem_info_vram_used")
    total = node.heap if node is not None and node.heap else vram
    if used is not None and total is not None and vram is not None and total > vram:
        used += _number(device / "mem_info_gtt_used") or 0  # the CPU's memory, a part of its own
    unique = _text(device / "unique_id")
    partition = _text(device / "current_compute_partition")
    return AmdCard(
        index,
        "1002:" + _text(device / "device").removeprefix("0x").lower(),
        _text(device / "revision").removeprefix("0x").lower(),
        f"GPU-{unique}" if unique else "",
        node.gfx if node is not None else None,
        total,
        vram,
        used,
        None if partition in _WHOLE else partition,
        _watts(device),
    )


def _devices(root: Path) -> Iterator[Path]:
    folders = list(root.iterdir()) if root.is_dir() else []
    cards = [folder for folder in folders if _CARD.fullmatch(folder.name)]
    for folder in sorted(cards, key=lambda card: int(card.name.removeprefix("card"))):
        if _text(folder / "device" / "vendor") == _AMD:
            yield folder / "device"


def _minor(device: Path) -> int | None:
    """The number of the device file that ROCm opens: 128 of renderD128."""
    for folder in device.glob("drm/renderD*"):
        number = folder.name.removeprefix("renderD")
        if number.isdecimal():
            return int(number)
    return None


def _nodes(topology: Path) -> Iterator[_Node]:
    """Of a container the GPUs that it was given: what is said of the others cannot be read."""
    for folder in topology.glob("nodes/*"):
        told = _properties(folder / "properties")
        if not folder.name.isdecimal() or not told.get("simd_count"):
            continue
        banks = [_properties(bank) for bank in folder.glob("mem_banks/*/properties")]
        heap = sum(
            bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _HEAPS
        )
        gfx = _gfx(told.get("gfx_target_version", 0))
        yield _Node(int(folder.name), told.get("drm_render_minor", -1), gfx, heap)


def _gfx(version: int) -> str:
    """90402 as gfx942, 90010 as gfx90a."""
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def _properties(path: Path) -> Mapping[str, int]:
    """Lines of a name and a number."""
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _watts(card: Path) -> float | None:
    """The average, or on newer cards what is drawn now; sysfs says it in microwatts."""
    for name in ("power1_average", "power1_input"):
        for sensor in card.glob(f"hwmon/hwmon*/{name}"):
            number = _number(sensor)
            if number is not None:
                return number / 1e6
    return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
