"""AMD GPUs as their drivers show them in sysfs, laid out as the kernel documents it."""

from __future__ import annotations

from pathlib import Path

GIB = 2**30


def card(root: Path, name: str, used: str | None, vendor: str = "0x1002") -> Path:
    """The folder of a card of the display driver, below `/sys`."""
    device = root / "class" / "drm" / name / "device"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    if used is not None:
        (device / "mem_info_vram_used").write_text(f"{used}\n")
    return device


def sensor(device: Path, name: str, microwatts: int) -> None:
    """Of the power that it draws."""
    folder = device / "hwmon" / "hwmon3"
    folder.mkdir(parents=True)
    (folder / name).write_text(f"{microwatts}\n")


class Sysfs:
    """A machine with ROCm's driver: the processor is node 0 of the topology."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._topology = root / "class" / "kfd" / "kfd" / "topology" / "nodes"
        self.node(0, cpu_cores_count=32, simd_count=0, vendor_id=0, drm_render_minor=0)

    def node(self, number: int, **properties: int) -> Path:
        folder = self._topology / str(number)
        folder.mkdir(parents=True)
        lines = [f"{name} {value}\n" for name, value in properties.items()]
        (folder / "properties").write_text("".join(lines))
        return folder

    def gpu(
        self,
        node: int,
        card_number: int,
        device_id: str,
        gfx_version: int,
        vram: int,
        *,
        used: int = 0,
        revision: str = "0x00",
        heap: int | None = None,
        unique_id: str = "",
        partition: str | None = None,
    ) -> Path:
        """`heap` is what the compute driver lets programs have, if it is not the card's memory."""
        minor = 128 + card_number
        folder = self.node(
            node, simd_count=256, gfx_target_version=gfx_version, vendor_id=4098,
            device_id=int(device_id, 16), drm_render_minor=minor,
        )  # fmt: skip
        bank = folder / "mem_banks" / "0"
        bank.mkdir(parents=True)
        size = vram if heap is None else heap
        (bank / "properties").write_text(f"heap_type 1\nsize_in_bytes {size}\nflags 0\n")
        device = card(self.root, f"card{card_number}", str(used))
        (device / "device").write_text(f"{device_id}\n")
        (device / "revision").write_text(f"{revision}\n")
        (device / "mem_info_vram_total").write_text(f"{vram}\n")
        (device / "drm" / f"renderD{minor}").mkdir(parents=True)
        if unique_id:
            (device / "unique_id").write_text(f"{unique_id}\n")
        if partition is not None:
            (device / "current_compute_partition").write_text(f"{partition}\n")
        return device
