"""Detection over a fake NVML, with totals that real cards show."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pynvml
import pytest
from fake_nvml import Card, FakeNvml, Slice, link

from hardware_db import NoGpuDetected, Rig, find_rig
from hardware_db.detect import Machine, detect_rig
from hardware_db.host import HostMemory, host_memory
from hardware_db.units import GIB, MIB

HOST = HostMemory(total_bytes=64 * GIB, available_bytes=50 * GIB)


def detect(*cards: Card, host: HostMemory | None = HOST, wsl: bool = False, **environ: str) -> Rig:
    nvml = FakeNvml(*cards)
    try:
        return detect_rig(Machine(nvml, environ, host, wsl))
    finally:
        assert (nvml.inits, nvml.open) == (1, 0), "NVML must be shut down"


def rtx_4090(**changes: Any) -> Card:
    card = Card("NVIDIA GeForce RTX 4090", 24564, reserved_mib=484, used_mib=600,
                pci_id="10de:2684", uuid="GPU-4090aaaa-1")  # fmt: skip
    return _changed(card, changes)


def rtx_3090(**changes: Any) -> Card:
    card = Card("NVIDIA GeForce RTX 3090", 24576, reserved_mib=451, pci_id="10de:2204", cc=(8, 6),
                uuid="GPU-3090bbbb-1")  # fmt: skip
    return _changed(card, changes)


def h100(**changes: Any) -> Card:
    card = Card("NVIDIA H100 80GB HBM3", 81559, reserved_mib=550, pci_id="10de:2330", cc=(9, 0),
                pcie=(5, 16), uuid="GPU-0100cccc-1")  # fmt: skip
    return _changed(card, changes)


def gb10(**changes: Any) -> Card:
    card = Card("NVIDIA GB10", None, pci_id="10de:2e12", cc=(12, 1), ats=True, pcie=None)
    return _changed(card, changes)


def a100_with_mig(*slices: Slice, **changes: Any) -> Card:
    card = Card("NVIDIA A100-SXM4-40GB", 40960, pci_id="10de:20b0", cc=(8, 0), mig=[*slices],
                uuid="GPU-a100dddd-1")  # fmt: skip
    return _changed(card, changes)


def _changed(card: Card, changes: dict[str, Any]) -> Card:
    return replace(card, linked=set(), **changes)


SLICES = (
    Slice("1g.5gb", 4864, 14, "MIG-aaaa-1"),
    Slice("3g.20gb", 19968, 42, "MIG-bbbb-1"),
)


def test_the_fake_has_the_signatures_of_the_real_module() -> None:
    functions = [name for name in vars(FakeNvml) if name.startswith("nvml") and "_" not in name]
    assert len(functions) == 22
    for name in functions:
        real = inspect.signature(inspect.unwrap(getattr(pynvml, name)))
        fake = inspect.signature(getattr(FakeNvml(), name))
        assert list(fake.parameters) == list(real.parameters), name


def test_a_card_with_the_driver_reserve_taken_off() -> None:
    rig = detect(rtx_4090())
    device = rig.devices[0]
    assert (device.gpu.slug, device.live, device.index) == ("rtx-4090", True, 0)
    assert device.total_bytes == 24080 * MIB  # 23.516 GiB: as torch shows it
    assert device.free_bytes == 23480 * MIB
    assert (rig.nodes, rig.link.kind, rig.notes) == (1, "none", ())
    assert rig.host_memory_bytes == 64 * GIB
    assert device.gpu.memory.nvml_total_bytes == 24564 * MIB


def test_rtx_pro_6000_server_edition_totals_agree_with_torch() -> None:
    card = Card("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, reserved_mib=636,
                pci_id="10de:2bb5", cc=(12, 0))  # fmt: skip
    device = detect(card).devices[0]
    assert device.gpu.slug == "rtx-pro-6000-blackwell-server"
    assert device.total_bytes == 97251 * MIB


def test_old_drivers_and_bindings_without_the_v2_query() -> None:
    device = detect(rtx_4090(memory_v2=False)).devices[0]
    # no reserve told: 340 MiB + 0.25 % of the total
    assert device.total_bytes == pytest.approx((24564 * 0.9975 - 340) * MIB, abs=1)
    h = detect(h100(name=b"NVIDIA H100 80GB HBM3")).devices[0]
    assert h.gpu.slug == "h100-sxm"

    class Older(FakeNvml):
        def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # type: ignore[override]
            return super().nvmlDeviceGetMemoryInfo(handle)

    rig = detect_rig(Machine(Older(rtx_4090()), {}, HOST))
    assert rig.devices[0].total_bytes == device.total_bytes


def test_under_wsl_nothing_is_hidden_from_the_total() -> None:
    rig = detect(rtx_4090(), wsl=True)
    assert rig.devices[0].total_bytes == 24564 * MIB
    assert rig.notes[0].startswith("WSL: ")


def test_eight_cards_on_nvlink() -> None:
    cards = [h100(uuid=f"GPU-{i}") for i in range(8)]
    link(*cards)
    rig = detect(*cards)
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("nvlink", 450)
    assert [device.index for device in rig.devices] == list(range(8))
    assert rig.spec == f"8xh100-sxm:{81559 - 550}MiB"
    again = find_rig(rig.spec)
    assert [d.total_bytes for d in again.devices] == [d.total_bytes for d in rig.devices]
    assert again.link == rig.link


def test_a_bridge_is_in_the_text_of_the_rig() -> None:
    cards = [rtx_3090(), rtx_3090(uuid="GPU-2")]
    link(*cards)
    rig = detect(*cards)
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("nvlink", 56.25)
    assert rig.spec.endswith("+nvlink")
    assert find_rig(rig.spec).link == rig.link


def test_bridges_between_some_cards_leave_pcie_for_all() -> None:
    cards = [rtx_3090(uuid=f"GPU-{i}") for i in range(4)]
    link(*cards[:2])
    link(*cards[2:])
    rig = detect(*cards)
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("pcie", 32)
    assert "only some" in rig.notes[0]


def test_the_slot_bounds_pcie() -> None:
    rig = detect(rtx_4090(), rtx_4090(uuid="GPU-2", slot_lanes=8))
    assert (rig.link.gbs_per_direction, rig.link.source) == (16, "PCIe 4.0 x8")
    rig = detect(rtx_4090(pcie=None), rtx_4090(uuid="GPU-2", pcie=(3, 16)))
    assert (rig.link.gbs_per_direction, rig.link.source) == (16, "PCIe 3.0 x16")


def test_nvlink_native_cards_without_nvlink_are_on_pcie() -> None:
    rig = detect(h100(), h100(uuid="GPU-2"))  # as some clouds hand them out
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("pcie", 64)


def test_different_cards() -> None:
    rig = detect(rtx_3090(), rtx_4090())
    assert rig.mixed
    assert rig.spec == "rtx-3090:24125MiB+rtx-4090:24080MiB"
    assert rig.smallest.gpu.slug == "rtx-4090"
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in rig.notes[0]
    assert detect(rtx_3090(), rtx_4090(), CUDA_DEVICE_ORDER="PCI_BUS_ID").notes == ()


def test_a_modified_card_keeps_its_compute_and_says_so() -> None:
    rig = detect(rtx_4090(total_mib=49140, reserved_mib=569))
    device = rig.devices[0]
    assert device.total_bytes == 48571 * MIB
    assert (device.gpu.bandwidth_gbs, device.gpu.matmul("bf16")) == (1008, 165.2)
    assert "modified" in rig.notes[0]


def test_a_total_that_no_such_card_has() -> None:
    rig = detect(Card("NVIDIA GeForce RTX 5090", 16384, reserved_mib=400, pci_id="10de:2b85"))
    device = rig.devices[0]
    assert device.total_bytes == device.gpu.memory.total_bytes == 15984 * MIB
    assert device.gpu.memory.nvml_total_bytes == 16384 * MIB
    assert (device.gpu.slug, device.gpu.bandwidth_gbs) == ("rtx-5090", 1792)
    assert "modified or partitioned" in rig.notes[0]
    assert find_rig(rig.spec).devices[0].total_bytes == 15984 * MIB


def test_memory_tells_apart_cards_of_one_name() -> None:
    small = Card("NVIDIA GeForce RTX 3060", 8192, reserved_mib=360, pci_id="10de:2504")
    large = Card("NVIDIA GeForce RTX 3060", 12288, reserved_mib=370, pci_id="10de:2504")
    rig = detect(small, large)
    assert [device.gpu.slug for device in rig.devices] == ["rtx-3060-8gb", "rtx-3060"]
    assert rig.notes == ()


def test_an_odd_name_is_known_by_its_pci_id() -> None:
    rig = detect(Card("Graphics Device", 24564, reserved_mib=484, pci_id="10de:2684"))
    assert rig.devices[0].gpu.slug == "rtx-4090"


def test_an_unknown_card_is_built_from_what_it_says() -> None:
    card = Card("NVIDIA RTX PRO 9000 Future", 131072, reserved_mib=700, pci_id="10de:ffff",
                cc=(13, 0), bus_bits=512, memory_mhz=16001, pcie=(6, 16))  # fmt: skip
    rig = detect(card)
    gpu = rig.devices[0].gpu
    assert (gpu.vendor, gpu.confidence, gpu.compute_capability) == ("nvidia", "low", (13, 0))
    assert gpu.driver_name == "NVIDIA RTX PRO 9000 Future"
    assert rig.devices[0].total_bytes == gpu.memory.total_bytes == 130372 * MIB
    assert gpu.memory.nvml_total_bytes == 131072 * MIB
    assert gpu.bandwidth_gbs == pytest.approx(512 / 8 * 32.002)
    assert gpu.bandwidth_check == "estimated"
    assert gpu.rates is None
    assert "not in the catalogue" in rig.notes[0]
    assert rig.missing_facts() == ("bf16 rate", "fp8 rate")
    assert find_rig(rig.spec).devices[0].gpu.bandwidth_gbs == gpu.bandwidth_gbs


@pytest.mark.parametrize(
    ("bits", "mhz", "gbs"),
    [(384, 10501, 1008), (384, 9751, 936.2), (5120, 1215, 1555), (5120, 2619, 3350),
     (512, 14001, 1792), (256, 5001, 320)],
)  # fmt: skip
def test_the_bandwidth_estimate_holds_for_known_cards(bits: int, mhz: int, gbs: float) -> None:
    card = Card("Something", 24000, pci_id="10de:ffff", bus_bits=bits, memory_mhz=mhz)
    assert detect(card).devices[0].gpu.bandwidth_gbs == pytest.approx(gbs, rel=0.002)


GB10_HOST = HostMemory(total_bytes=128501256192, available_bytes=120 * 10**9)


@pytest.mark.parametrize(
    "card", [gb10(), gb10(total_mib=8128), gb10(memory_error=pynvml.NVML_ERROR_NO_PERMISSION)]
)
def test_unified_memory_is_the_systems(card: Card) -> None:
    rig = detect(card, host=GB10_HOST)
    device = rig.devices[0]
    assert (device.gpu.slug, device.live) == ("gb10", True)
    assert device.total_bytes == 128501256192  # what torch shows as 119.7 GiB
    assert device.free_bytes == 120 * 10**9
    assert rig.notes == ()
    assert rig.spec == "gb10:128501256192B"


def test_unified_memory_without_proc_falls_back_to_the_table() -> None:
    rig = detect(gb10(), host=None)
    device = rig.devices[0]
    assert (device.live, device.free_bytes) == (False, None)
    assert device.total_bytes == device.gpu.memory.total_bytes
    assert "cannot be read" in rig.notes[0]


def test_an_unknown_chip_that_shares_the_cpus_memory() -> None:
    device = detect(gb10(name="NVIDIA N1X", pci_id="10de:ffff", total_mib=8128)).devices[0]
    assert (device.total_bytes, device.free_bytes) == (64 * GIB, 50 * GIB)
    assert device.gpu.memory.unified


def test_a_grace_superchip_has_memory_of_its_own() -> None:
    card = Card("NVIDIA GH200 480GB", 97871, reserved_mib=600, pci_id="10de:2342", ats=True)
    device = detect(card, host=HostMemory(480 * GIB, 400 * GIB)).devices[0]
    assert (device.gpu.slug, device.total_bytes) == ("gh200-96gb", 97271 * MIB)


def test_jetson_modules_share_a_name_and_differ_by_memory() -> None:
    card = Card("Orin", None, pci_id="10de:ffff", cc=(8, 7))
    device = detect(card, host=HostMemory(7607 * MIB, 5 * GIB)).devices[0]
    assert device.gpu.slug == "jetson-orin-nano-super-8gb"


def test_mig_instances_are_devices_with_their_own_totals() -> None:
    card = a100_with_mig(*SLICES, total_mib=None, memory_error=pynvml.NVML_ERROR_NO_PERMISSION)
    rig = detect(card)
    assert [device.total_bytes for device in rig.devices] == [4864 * MIB, 19968 * MIB]
    assert [device.gpu.name for device in rig.devices] == [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
    ]
    small = rig.devices[0].gpu
    assert (small.sm_count, small.compute_capability) == (14, (8, 0))
    assert small.matmul("bf16") == pytest.approx(311.9 * 14 / 108)
    assert small.bandwidth_gbs == pytest.approx(1555 * 4864 / 40960)
    assert (small.bandwidth_check, small.confidence) == ("estimated", "low")
    assert (rig.link.kind, rig.mixed) == ("none", False)
    assert "MIG instances cannot work together" in rig.notes[-1]
    again = find_rig(rig.spec)
    assert [d.total_bytes for d in again.devices] == [4864 * MIB, 19968 * MIB]
    assert again.devices[0].gpu.matmul("bf16") == small.matmul("bf16")


def test_mig_next_to_a_whole_card() -> None:
    rig = detect(a100_with_mig(*SLICES), h100())
    assert [device.index for device in rig.devices] == [0, 0, 1]
    assert rig.devices[2].gpu.slug == "h100-sxm"


def test_mig_without_instances() -> None:
    with pytest.raises(NoGpuDetected, match="MIG is on"):
        detect(a100_with_mig())


def test_a_whole_card_that_refuses_to_tell_its_memory() -> None:
    rig = detect(h100(total_mib=None, memory_error=pynvml.NVML_ERROR_NO_PERMISSION))
    device = rig.devices[0]
    assert (device.live, device.total_bytes) == (False, device.gpu.memory.total_bytes)
    assert "cannot be read" in rig.notes[0]


@pytest.mark.parametrize(
    ("selection", "indices"),
    [("0", [0]), ("1,0", [1, 0]), (" 0 , 2", [0, 2]), ("GPU-4090aaaa-1", [1]), ("GPU-4090", [1]),
     ("GPU-0100,0", [2, 0]), ("1,7,0", [1]), ("2,-1,0", [2]), ("0,0", [0])],
)  # fmt: skip
def test_cuda_visible_devices(selection: str, indices: list[int]) -> None:
    rig = detect(rtx_3090(), rtx_4090(), h100(), CUDA_VISIBLE_DEVICES=selection)
    assert [device.index for device in rig.devices] == indices


@pytest.mark.parametrize(
    ("selection", "profiles"),
    [("MIG-bbbb-1", ["3g.20gb"]), ("MIG-bbbb-1,MIG-aaaa-1", ["3g.20gb", "1g.5gb"]),
     ("0", ["1g.5gb", "3g.20gb"])],
)  # fmt: skip
def test_cuda_visible_devices_with_mig(selection: str, profiles: list[str]) -> None:
    rig = detect(a100_with_mig(*SLICES), h100(), CUDA_VISIBLE_DEVICES=selection)
    assert [device.gpu.name.split()[-1] for device in rig.devices] == profiles


@pytest.mark.parametrize("selection", ["", "-1", "9", "GPU-nope", "none", "\x1b[31m"])
def test_cuda_visible_devices_that_hide_everything(selection: str) -> None:
    with pytest.raises(NoGpuDetected, match="CUDA_VISIBLE_DEVICES=") as caught:
        detect(rtx_4090(), CUDA_VISIBLE_DEVICES=selection)
    assert str(caught.value).isprintable()


def test_a_lost_card_is_left_out() -> None:
    rig = detect(rtx_4090(), rtx_4090(lost=True), rtx_4090(uuid="GPU-3"))
    assert [device.index for device in rig.devices] == [0, 2]
    assert rig.notes == ("GPU 1 does not answer (GPU is lost) and is left out",)
    with pytest.raises(NoGpuDetected, match="No NVIDIA GPU answers"):
        detect(rtx_4090(lost=True))


def test_no_cards() -> None:
    with pytest.raises(NoGpuDetected, match="name one with --gpu, for example --gpu 4090"):
        detect()


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    ],
)
def test_no_driver(code: int) -> None:
    nvml = FakeNvml(init_error=code)
    with pytest.raises(NoGpuDetected) as caught:
        detect_rig(Machine(nvml, {}, HOST))
    assert str(pynvml.NVMLError(code)) in str(caught.value)
    assert str(caught.value).endswith("name one with --gpu, for example --gpu 4090")
    assert nvml.open == 0


def test_a_failing_driver_is_shut_down_all_the_same() -> None:
    nvml = FakeNvml(count_error=pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(NoGpuDetected, match="The NVIDIA driver fails here"):
        detect_rig(Machine(nvml, {}, HOST))
    assert (nvml.inits, nvml.open) == (1, 0)


def test_the_real_module_without_a_driver_or_with_one() -> None:
    try:
        said = detect_rig().describe()
    except NoGpuDetected as error:
        said = str(error)
    assert said.isprintable()


def test_meminfo(tmp_path: Any) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       125489508 kB\nMemFree: 1 kB\nMemAvailable:  100000000 kB\n")
    assert host_memory(str(file)) == HostMemory(128501256192, 102400000000)
    file.write_text("MemTotal: x kB\n")
    assert host_memory(str(file)) is None
    assert host_memory(str(tmp_path / "none")) is None
