"""AMD's GPUs as their driver shows them in sysfs, laid out as the kernel documents it."""

from __future__ import annotations

from pathlib import Path

from hardware_db.amdgpu import amd_usage
from hardware_db.usage import GpuUsage


def card(root: Path, name: str, used: str | None, vendor: str = "0x1002") -> Path:
    device = root / name / "device"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    if used is not None:
        (device / "mem_info_vram_used").write_text(f"{used}\n")
    return device


def sensor(device: Path, name: str, microwatts: int) -> None:
    folder = device / "hwmon" / "hwmon3"
    folder.mkdir(parents=True)
    (folder / name).write_text(f"{microwatts}\n")


def test_all_cards_together(tmp_path: Path) -> None:
    sensor(card(tmp_path, "card0", "1000"), "power1_average", 150_000_000)
    sensor(card(tmp_path, "card1", "2000"), "power1_input", 300_500_000)
    card(tmp_path, "card1-DP-1", "9999")  # a connector
    card(tmp_path, "card2", "9999", vendor="0x10de")
    card(tmp_path, "renderD128", "9999")
    assert amd_usage(tmp_path) == GpuUsage(3000, 450.5)


def test_what_is_not_told(tmp_path: Path) -> None:
    assert amd_usage(tmp_path / "none") is None
    assert amd_usage(tmp_path) is None
    card(tmp_path, "card0", "1000")
    assert amd_usage(tmp_path) == GpuUsage(1000, None)
    card(tmp_path, "card1", None)
    assert amd_usage(tmp_path) is None
