"""Rigs as text."""

from __future__ import annotations

import pytest

import hardware_db.rig_text
from hardware_db import HardwareError, InvalidRig, Link, NoGpuDetected, UnknownGpu, find_rig
from hardware_db.host import HostMemory
from hardware_db.units import GIB, MIB


@pytest.mark.parametrize(
    ("text", "nodes", "slugs", "spec"),
    [("4090", 1, ["rtx-4090"], "rtx-4090"),
     ("2x3090", 1, ["rtx-3090"] * 2, "2xrtx-3090"),
     ("2 x RTX 3090", 1, ["rtx-3090"] * 2, "2xrtx-3090"),
     ("2×3090", 1, ["rtx-3090"] * 2, "2xrtx-3090"),
     ("2X3090+NVLink", 1, ["rtx-3090"] * 2, "2xrtx-3090+nvlink"),
     ("4090+wsl", 1, ["rtx-4090"], "rtx-4090+wsl"),
     ("2x3090 + NVLink + WSL2", 1, ["rtx-3090"] * 2, "2xrtx-3090+nvlink+wsl"),
     ("8xh100-sxm", 1, ["h100-sxm"] * 8, "8xh100-sxm"),
     ("1x8xh100-sxm", 1, ["h100-sxm"] * 8, "8xh100-sxm"),
     ("2x8xh100-sxm", 2, ["h100-sxm"] * 8, "2x8xh100-sxm"),
     ("2x1xh100-sxm", 2, ["h100-sxm"], "2x1xh100-sxm"),
     ("4090+3090", 1, ["rtx-4090", "rtx-3090"], "rtx-4090+rtx-3090"),
     ("2x4090 + 3090", 1, ["rtx-4090", "rtx-4090", "rtx-3090"], "2xrtx-4090+rtx-3090"),
     ("3090+2x3090", 1, ["rtx-3090"] * 3, "3xrtx-3090"),
     ("7900xtx", 1, ["rx-7900-xtx"], "rx-7900-xtx"),
     ("2x7900xtx", 1, ["rx-7900-xtx"] * 2, "2xrx-7900-xtx"),
     ("9070xt", 1, ["rx-9070-xt"], "rx-9070-xt"),
     ("Ryzen AI Max+ 395", 1, ["radeon-8060s"], "radeon-8060s"),
     ("2xgb10", 2, ["gb10"], "2x1xgb10"),
     ("2x10de:2b85", 1, ["rtx-5090"] * 2, "2xrtx-5090"),
     ("4090:47GiB", 1, ["rtx-4090-48gb"], "rtx-4090-48gb:47GiB"),
     ("2xa100:39GiB", 1, ["a100-sxm4-40gb"] * 2, "2xa100-sxm4-40gb:39GiB"),
     ("arc-b580", 1, ["arc-b580"], "arc-b580"),
     ("cpu:64GiB@80", 1, ["cpu"], "cpu:64GiB@80"),
     ("cpu:64GiB", 1, ["cpu"], "cpu:64GiB"),
     ("cpu:64GiB, avx512_bf16,amx_tile", 1, ["cpu"], "cpu:64GiB,amx_tile,avx512_bf16"),
     ("custom:23.5GiB@1008,bf16=165,cc=8.9", 1, ["custom"],
      "custom:24064MiB@1008,bf16=165,cc=8.9"),
     ("2xcustom:24GB,name=Card (x)", 1, ["custom"] * 2, "2xcustom:24000000000B,name=Card (x)"),
     ("custom:24GiB@0.5,fp16=1.25,fp8=2,int8=3,fp4=4", 1, ["custom"],
      "custom:24GiB@0.5,fp16=1.25,fp8=2,int8=3,fp4=4"),
     ("custom:24GiB+4090", 1, ["custom", "rtx-4090"], "custom:24GiB+rtx-4090")],
)  # fmt: skip
def test_text_to_rig_and_back(text: str, nodes: int, slugs: list[str], spec: str) -> None:
    rig = find_rig(text)
    assert (rig.nodes, [device.gpu.slug for device in rig.devices]) == (nodes, slugs)
    assert rig.gpu_count == nodes * len(slugs)
    assert rig.spec == spec
    assert find_rig(rig.spec) == rig
    assert not any(device.live for device in rig.devices)


@pytest.mark.parametrize(
    "text", ["", " ", "x", "3x", "1x ", "x4090", "0x4090", "00x4090", "9999999x4090", "-2x4090",
             "2.5x4090", "two x 4090", "4090+", "+4090", "4090++3090", "+", "+nvlink", "2x2x2x4090",
             "2x4090+2x2x3090", "custom", "custom:", "custom:-3GiB", "custom:24", "custom:24GiB@",
             "custom:24GiB@abc", "custom:24GiB@0", "custom:24GiB,bf16", "custom:24GiB,bf16=-1",
             "custom:24GiB,bf16=nan", "custom:24GiB,foo=1", "custom:24GiB,cc=89",
             "custom:24GiB,bf16=1,bf16=2", "custom:24GiB,name=", "custom:24GiB,name=Käse",
             "cpu:", "cpu:x", "cpu:64GiB@fast", "cpu:64GiB,avx",
             "2xcpu:64GiB", "cpu:64GiB+4090", "4090:",
             "4090:abc",
             "4090\x1b[31m", "4090\n", "\u202e4090\u202e.", "4090\x00", "4090" * 200,
             "9" * 5000 + "x4090", "２x4090", "4090+nvlink", "2x4090+nvlink", "2xl40s+nvlink",
             "4090+3090+nvlink", "2xmi300x+nvlink", "cpu:64GiB+nvlink"]
)  # fmt: skip
def test_bad_text_says_what_is_wrong_and_how_it_is_right(text: str) -> None:
    if text == "4090\n":
        assert find_rig(text).spec == "rtx-4090"  # a line read from a file
        return
    with pytest.raises(InvalidRig) as caught:
        find_rig(text)
    assert str(caught.value).isprintable()
    assert "write for example " in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ["2x4909", "4090+nonsense", "3090+ti", "nvlink", "4090,3090", "2xh1000"]
)
def test_unknown_names_are_unknown_gpus(text: str) -> None:
    with pytest.raises(UnknownGpu):
        find_rig(text)


def test_messages() -> None:
    for text, message in {
        "3x": '"3x" lacks the name of a GPU; write for example 2x3090',
        "2x4090+nvlink": '"2x4090+nvlink" asks for NVLink, but the NVIDIA GeForce RTX 4090 has '
        "none; write for example 2x3090+nvlink",
        "custom:": '"" is not a memory size; write for example custom:23.5GiB@1008,bf16=165,cc=8.9',
        "2x4909": 'Unknown GPU "4909". Did you mean: rtx-4090, rtx-4090-laptop, rtx-4090-d? See '
        '"vplan gpus".',
    }.items():
        with pytest.raises(HardwareError) as caught:
            find_rig(text)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "link"),
    [("4090", Link("none", None, "one GPU")),
     ("2x3090", Link("pcie", 32, "PCIe 4.0 x16")),
     ("2x3090+nvlink", Link("nvlink", 56.25, "NVLink 3 bridge")),
     ("2xa6000+nvlink", Link("nvlink", 56.25, "NVLink 3 bridge")),
     ("2xrtx-4060", Link("pcie", 16, "PCIe 4.0 x8")),
     ("2xt4", Link("pcie", 16, "PCIe 3.0 x16")),
     ("2x5090", Link("pcie", 64, "PCIe 5.0 x16")),
     ("5090+3060", Link("pcie", 32, "PCIe 4.0 x16")),
     ("5090+4060", Link("pcie", 16, "PCIe 4.0 x8")),
     ("2xh100-pcie", Link("pcie", 64, "PCIe 5.0 x16")),
     ("2xv100-sxm2-32gb", Link("nvlink", 150, "NVLink 2")),
     ("8xa100-sxm4-80gb", Link("nvlink", 300, "NVLink 3")),
     ("8xh100-sxm+nvlink", Link("nvlink", 450, "NVLink 4")),
     ("8xh800", Link("nvlink", 200, "NVLink 4")),
     ("8xb200", Link("nvlink", 900, "NVLink 5")),
     ("h100-sxm+a100-sxm4-80gb", Link("pcie", 32, "PCIe 4.0 x16"))],
)  # fmt: skip
def test_links(text: str, link: Link) -> None:
    assert find_rig(text).link == link


def test_links_that_are_not_known_say_so() -> None:
    rig = find_rig("8xmi300x")
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("fabric", None)
    assert rig.missing_facts() == ("link between the GPUs",)
    rig = find_rig("2xh100-pcie+nvlink")  # an option whose rate no source gives
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("nvlink", None)
    assert "not in the catalogue" in rig.notes[0]


def test_bridges_join_pairs_only() -> None:
    rig = find_rig("4x3090+nvlink")
    assert (rig.link.kind, rig.link.gbs_per_direction) == ("pcie", 32)
    assert "pairs" in rig.notes[0]
    assert rig.spec == "4xrtx-3090+nvlink"


def test_a_custom_card_has_what_was_given_and_nothing_else() -> None:
    rig = find_rig("custom:23.5GiB@1008,bf16=165,fp8=330,cc=8.9,name=My card")
    device = rig.devices[0]
    gpu = device.gpu
    assert device.total_bytes == gpu.memory.total_bytes == 47 * GIB // 2
    assert gpu.memory.basis == "given"
    assert (gpu.name, gpu.vendor, gpu.bandwidth_gbs) == ("My card", "custom", 1008)
    assert (gpu.compute_capability, gpu.matmul("bf16"), gpu.matmul("fp8")) == ((8, 9), 165, 330)
    assert gpu.matmul("int8") is None
    assert rig.missing_facts() == ()
    bare = find_rig("custom:24GiB")
    assert bare.missing_facts() == ("memory bandwidth", "compute capability", "bf16 rate")
    # vLLM's defaults key on the NVML total, which is the usable memory and the driver's reserve.
    assert bare.devices[0].gpu.memory.nvml_total_bytes == pytest.approx(
        (24 * GIB + 340 * MIB) / 0.9975, abs=1
    )


def test_cpu_without_a_size_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostMemory(total_bytes=64 * GIB, available_bytes=50 * GIB)
    monkeypatch.setattr(hardware_db.rig_text, "cpu_memory", lambda: host)
    monkeypatch.setattr(hardware_db.rig_text, "cpu_flags", lambda: ("amx_tile",))
    rig = find_rig("cpu")
    device = rig.devices[0]
    assert (device.gpu.vendor, device.total_bytes, device.free_bytes) == ("cpu", 64 * GIB, 50 * GIB)
    assert (device.live, rig.host_memory_bytes, rig.spec) == (True, 64 * GIB, "cpu:64GiB,amx_tile")
    assert rig.missing_facts() == ("memory bandwidth", "bf16 rate")
    monkeypatch.setattr(hardware_db.rig_text, "cpu_memory", lambda: None)
    assert find_rig("cpu").missing_facts()[0] == "usable memory"
    assert find_rig("cpu").spec == "cpu"


def test_given_memory_wins_over_the_table() -> None:
    rig = find_rig("rtx-4090:12GiB")
    assert rig.devices[0].total_bytes == rig.devices[0].gpu.memory.total_bytes == 12 * GIB
    assert "modified or partitioned" in rig.notes[0]
    near = find_rig("rtx-4090:23.4GiB").devices[0]
    assert near.total_bytes != near.gpu.memory.total_bytes
    assert near.gpu is find_rig("rtx-4090").devices[0].gpu


def test_free_memory_and_reserve() -> None:
    device = find_rig("2x4090", free_memory="22GiB", reserve="1G").devices[1]
    assert (device.free_bytes, device.reserve_bytes) == (22 * GIB, GIB)
    assert find_rig("4090", free_memory=20 * GIB).devices[0].free_bytes == 20 * GIB
    assert find_rig("4090", reserve="0").devices[0].reserve_bytes == 0
    assert find_rig("4090").devices[0].free_bytes is None
    for free in ("30GiB", "80%", "22", "x", "-1GiB", ""):
        with pytest.raises(InvalidRig):
            find_rig("4090", free_memory=free)
    with pytest.raises(InvalidRig, match=r"reserve of 30\.00 GiB is more than the 23\.63 GiB"):
        find_rig("4090", reserve="30GiB")


def test_the_smallest_card_bounds_tensor_parallelism() -> None:
    rig = find_rig("4090+3060+3090")
    assert rig.mixed
    assert rig.smallest.gpu.slug == "rtx-3060"
    assert not find_rig("2x3090").mixed
    assert find_rig("arc-b580").smallest.total_bytes is None


@pytest.mark.parametrize(
    ("text", "line"),
    [("2xrtx-3090", "2 × NVIDIA GeForce RTX 3090, 23.56 GiB each, PCIe 4.0 x16"),
     ("rtx-3090", "NVIDIA GeForce RTX 3090, 23.56 GiB"),
     ("2x8xh100-sxm", "2 nodes of 8 × NVIDIA H100 SXM5 80 GB, 79.18 GiB each, NVLink 4"),
     ("2xt4+l4", "2 × NVIDIA Tesla T4 (14.74 GiB) + NVIDIA L4 (22.16 GiB), PCIe 3.0 x16"),
     ("arc-b580", "Intel Arc B580, memory not known"), ("cpu:64GiB", "CPU, 64.00 GiB")],
)  # fmt: skip
def test_describe(text: str, line: str) -> None:
    assert find_rig(text).describe() == line


def test_missing_facts_of_a_rig() -> None:
    assert find_rig("2x4090").missing_facts() == ()
    assert find_rig("2xarc-b580").missing_facts() == ("usable memory", "bf16 rate")
    assert find_rig("arc-b580:11GiB").missing_facts() == ("bf16 rate",)
    assert find_rig("2x8xh100-sxm").missing_facts() == ("network between the nodes",)


def test_ambiguity_is_noted_once() -> None:
    assert len(find_rig("2x3060").notes) == 1
    assert len(find_rig("3060+3060").notes) == 1
    assert find_rig("rtx-3060").notes == ()


def test_auto_asks_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(visible: str | None) -> object:
        raise NoGpuDetected("none here")

    monkeypatch.setattr("hardware_db.detect.detect_rig", none)
    with pytest.raises(NoGpuDetected, match="none here"):
        find_rig(" AUTO ")
