"""AMD's GPUs: what they use and draw, and the rig that they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_amd import GIB, Sysfs, card, sensor
from fake_nvml import Card, FakeNvml

from hardware_db import NoGpuDetected, Rig, find_rig
from hardware_db.amdgpu import amd_usage, card_name, read_amd_cards
from hardware_db.detect import Machine, detect_rig
from hardware_db.host import HostMemory
from hardware_db.usage import GpuMemory, GpuUsage

HOST = HostMemory(total_bytes=128 * GIB, available_bytes=100 * GIB)
# mem_info_vram_total of an MI300X: 191.98 GiB, what torch says of one on bare metal.
MI300X = 206141652992


def detect(
    root: Path,
    visible: str | None = None,
    host: HostMemory | None = HOST,
    names: Path | None = None,
    nvidia: tuple[Card, ...] = (),
    **environ: str,
) -> Rig:
    cards = tuple(read_amd_cards(root))
    files = [] if names is None else [names]
    called = {card.index: name for card in cards if (name := card_name(card, files))}
    nvml = FakeNvml(*nvidia) if nvidia else None
    return detect_rig(Machine(nvml, environ, host, False, cards, called), visible)


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


def test_the_cards_of_a_rig_alone(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    sysfs.gpu(1, 1, "0x744c", 110000, 24 * GIB, used=GIB)
    sysfs.gpu(2, 0, "0x164e", 100306, GIB // 2, used=GIB // 4)
    assert amd_usage(tmp_path, [0]) == GpuUsage(GIB, None, (GpuMemory(0, GIB, 24 * GIB),))


# PCI device, revision, gfx_target_version, VRAM in bytes, what it is
KINDS = [
    ("0x74a1", "0x00", 90402, MI300X, "mi300x", "gfx942"),
    ("0x74b5", "0x00", 90402, 205826031616, "mi300x", "gfx942"),  # in a virtual machine
    ("0x74a5", "0x00", 90402, 274856935424, "mi325x", "gfx942"),
    ("0x75a3", "0x00", 90500, 309216673792, "mi355x", "gfx950"),
    ("0x740f", "0x02", 90010, 64 * GIB - 16 * 2**20, "mi210", "gfx90a"),
    ("0x740c", "0x01", 90010, 64 * GIB - 16 * 2**20, "mi250", "gfx90a"),
    ("0x744c", "0xc8", 110000, 25753026560, "rx-7900-xtx", "gfx1100"),
    ("0x744c", "0xcc", 110000, 20 * GIB - 64 * 2**20, "rx-7900-xt", "gfx1100"),
    ("0x744c", "0xce", 110000, 16 * GIB - 64 * 2**20, "rx-7900-gre", "gfx1100"),
    ("0x7448", "0x00", 110000, 48 * GIB - 64 * 2**20, "radeon-pro-w7900", "gfx1100"),
    ("0x7551", "0xc0", 120001, 34208743424, "radeon-ai-pro-r9700", "gfx1201"),
]


@pytest.mark.parametrize(("device", "revision", "version", "vram", "slug", "gfx"), KINDS)
def test_each_kind_by_its_pci_id_and_its_memory(
    device: str, revision: str, version: int, vram: int, slug: str, gfx: str, tmp_path: Path
) -> None:
    Sysfs(tmp_path).gpu(1, 1, device, version, vram, used=2 * GIB, revision=revision)
    (seen,) = read_amd_cards(tmp_path)
    assert seen.gfx == gfx
    (found,) = detect(tmp_path).devices
    assert (found.gpu.slug, found.gpu.gfx, found.gpu.vendor) == (slug, gfx, "amd")
    assert (found.total_bytes, found.free_bytes) == (vram, vram - 2 * GIB)
    assert (found.live, found.index) == (True, 0)


def test_eight_in_the_order_of_rocm(tmp_path: Path) -> None:
    """Which is that of the topology, not that of the display driver."""
    sysfs = Sysfs(tmp_path)
    sysfs.node(1, cpu_cores_count=96, simd_count=0, vendor_id=0, drm_render_minor=0)
    for place in range(8):
        sysfs.gpu(9 - place, place, "0x74a1", 90402, MI300X, used=place * GIB,
                  unique_id=f"a{place}")  # fmt: skip
    rig = detect(tmp_path)
    assert rig.spec == "8xmi300x:196592MiB"
    assert rig.link.kind == "fabric"
    taken = [(MI300X - (device.free_bytes or 0)) // GIB for device in rig.devices]
    assert taken == [7, 6, 5, 4, 3, 2, 1, 0]
    again = find_rig(rig.spec)
    assert [device.gpu.slug for device in again.devices] == ["mi300x"] * 8

    def shown(**environ: str) -> list[int | None]:
        return [device.index for device in detect(tmp_path, **environ).devices]

    assert shown(HIP_VISIBLE_DEVICES="6,1") == [6, 1]
    assert shown(CUDA_VISIBLE_DEVICES="2") == [2]
    assert shown(HIP_VISIBLE_DEVICES="3", CUDA_VISIBLE_DEVICES="3") == [3]
    assert shown(ROCR_VISIBLE_DEVICES="4,5,6", HIP_VISIBLE_DEVICES="1,-1,0") == [5]
    assert shown(ROCR_VISIBLE_DEVICES="GPU-a0") == [7]
    assert shown(HIP_VISIBLE_DEVICES="1", visible="0,1") == [0, 1]
    with pytest.raises(NoGpuDetected, match=r'HIP_VISIBLE_DEVICES="9" shows none'):
        shown(HIP_VISIBLE_DEVICES="9")


def test_a_name_tells_apart_what_memory_cannot(tmp_path: Path) -> None:
    """The RX 9070 and its XT share PCI id and memory; libdrm's table knows the revisions."""
    Sysfs(tmp_path).gpu(1, 0, "0x7550", 120001, 17095983104, revision="0xc3")
    names = tmp_path / "amdgpu.ids"
    names.write_text(
        "# List of AMDGPU IDs\n1.0.0\n"
        "7550,\tC0,\tAMD Radeon RX 9070 XT\n7550,\tC3,\tAMD Radeon RX 9070\n"
    )
    assert detect(tmp_path, names=names).devices[0].gpu.slug == "rx-9070"
    names.write_text(names.read_text().replace("C0", "XX").replace("C3", "C0").replace("XX", "C3"))
    assert detect(tmp_path, names=names).devices[0].gpu.slug == "rx-9070-xt"


def test_a_processors_graphics_are_left_out(tmp_path: Path) -> None:
    """Which libdrm calls what the R9700's driver calls that card."""
    sysfs = Sysfs(tmp_path)
    sysfs.gpu(1, 1, "0x744c", 110000, 25753026560)
    sysfs.gpu(2, 0, "0x164e", 100306, GIB // 2, revision="0xc9")
    names = tmp_path / "amdgpu.ids"
    names.write_text("164E,\tC9,\tAMD Radeon Graphics\n")
    rig = detect(tmp_path, names=names)
    assert [device.gpu.slug for device in rig.devices] == ["rx-7900-xtx"]
    assert "HIP_VISIBLE_DEVICES" in rig.notes[0]
    with pytest.raises(NoGpuDetected, match=r"Radeon Graphics with 0\.50 GiB, is too small"):
        detect(tmp_path, names=names, HIP_VISIBLE_DEVICES="1")


def test_memory_that_the_processor_shares(tmp_path: Path) -> None:
    """Half a GiB is carved out; the compute driver lends 64 GiB of the machine's."""
    sysfs = Sysfs(tmp_path)
    device = sysfs.gpu(1, 0, "0x1586", 110501, GIB // 2, used=GIB // 4, heap=64 * GIB)
    (device / "mem_info_gtt_used").write_text(f"{GIB}\n")
    (found,) = detect(tmp_path).devices
    assert (found.gpu.gfx, found.gpu.memory.unified) == ("gfx1151", True)
    assert found.total_bytes == 64 * GIB
    assert found.free_bytes == 64 * GIB - GIB - GIB // 4
    (found,) = detect(tmp_path, host=HostMemory(96 * GIB, 10 * GIB)).devices
    assert found.free_bytes == 10 * GIB


def test_a_card_that_the_catalogue_lacks(tmp_path: Path) -> None:
    Sysfs(tmp_path).gpu(1, 0, "0x738c", 90008, 32 * GIB, used=GIB)
    rig = detect(tmp_path)
    (found,) = rig.devices
    assert (found.gpu.vendor, found.gpu.gfx) == ("amd", "gfx908")
    assert (found.total_bytes, found.free_bytes) == (32 * GIB, 31 * GIB)
    assert "1002:738c" in rig.notes[0]


def test_a_card_in_parts_is_not_guessed_at(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    sysfs.gpu(1, 0, "0x74a1", 90402, MI300X, partition="CPX")
    sysfs.node(2, simd_count=32, gfx_target_version=90402, vendor_id=4098, drm_render_minor=129)
    with pytest.raises(NoGpuDetected, match="CPX"):
        detect(tmp_path)


def test_a_container_sees_what_it_was_given(tmp_path: Path) -> None:
    """What the kernel says of the other nodes is empty there."""
    sysfs = Sysfs(tmp_path)
    sysfs.gpu(1, 0, "0x74a1", 90402, MI300X)
    sysfs.gpu(2, 1, "0x74a1", 90402, MI300X)
    (tmp_path / "class/kfd/kfd/topology/nodes/1/properties").write_text("")
    assert [device.index for device in detect(tmp_path).devices] == [0]


def test_without_the_compute_driver(tmp_path: Path) -> None:
    device = card(tmp_path, "card0", str(GIB))
    (device / "device").write_text("0x744c\n")
    (device / "mem_info_vram_total").write_text(f"{24 * GIB}\n")
    assert detect(tmp_path).devices[0].gpu.slug == "rx-7900-xtx"


def test_nvidias_cards_come_first(tmp_path: Path) -> None:
    Sysfs(tmp_path).gpu(1, 0, "0x744c", 110000, 25753026560)
    card_4090 = Card("NVIDIA GeForce RTX 4090", 24564, pci_id="10de:2684")
    assert detect(tmp_path, nvidia=(card_4090,)).devices[0].gpu.slug == "rtx-4090"
    with pytest.raises(NoGpuDetected, match="CUDA_VISIBLE_DEVICES"):
        detect(tmp_path, nvidia=(card_4090,), CUDA_VISIBLE_DEVICES="-1")


def test_what_is_damaged_is_no_traceback(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    device = sysfs.gpu(1, 0, "0x744c", 110000, 24 * GIB)
    for name in ("mem_info_vram_total", "mem_info_vram_used", "revision", "device"):
        (device / name).write_bytes(b"\xff\n")
    (tmp_path / "class/kfd/kfd/topology/nodes/1/mem_banks/0/properties").write_bytes(b"\x00 x y")
    with pytest.raises(NoGpuDetected, match="of a memory not known"):
        detect(tmp_path)
