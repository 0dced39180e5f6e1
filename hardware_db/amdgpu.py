"""What the driver of AMD's GPUs tells in sysfs (the kernel's documentation of amdgpu)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hardware_db.usage import GpuUsage

_AMD = "0x1002"
_CARD = re.compile(r"card\d+")  # what has a connector behind it is one of its displays


def amd_usage(root: Path = Path("/sys/class/drm")) -> GpuUsage | None:
    """All AMD GPUs of this machine together; None where there is none, or one does not say."""
    cards = list(_cards(root))
    used = [_number(card / "mem_info_vram_used") for card in cards]
    if not used or None in used:
        return None
    microwatts = [_power(card) for card in cards]
    watts = None if None in microwatts else sum(each or 0 for each in microwatts) / 1e6
    return GpuUsage(sum(each or 0 for each in used), watts)


def _cards(root: Path) -> Iterator[Path]:
    folders = sorted(root.iterdir()) if root.is_dir() else []
    for folder in folders:
        if _CARD.fullmatch(folder.name) and _text(folder / "device" / "vendor") == _AMD:
            yield folder / "device"


def _power(card: Path) -> int | None:
    """Microwatts: the average, or on newer cards what is drawn now."""
    for name in ("power1_average", "power1_input"):
        for sensor in card.glob(f"hwmon/hwmon*/{name}"):
            number = _number(sensor)
            if number is not None:
                return number
    return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
