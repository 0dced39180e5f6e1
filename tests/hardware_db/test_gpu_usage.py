"""What GPUs have in use, over made-up cards."""

from __future__ import annotations

import pynvml
from fake_nvml import MIB, Card, FakeNvml, Slice
from msgspec.structs import replace

from hardware_db import find_rig
from hardware_db.detect import Machine, detect_rig
from hardware_db.rig import Device
from hardware_db.usage import GpuMemory, GpuMeter, GpuUsage


def device(index: int) -> Device:
    return replace(find_rig("4090").smallest, index=index)


def summed(meter: GpuMeter) -> tuple[int, float | None] | None:
    usage = meter.read()
    return None if usage is None else (usage.memory_bytes, usage.watts)


def test_each_of_those_that_were_asked_about() -> None:
    one = Card("A", 24564, used_mib=1000, milliwatts=60_500)
    other = Card("B", 49140, used_mib=2000, milliwatts=300_000)
    first, second = GpuMemory(0, 1000 * MIB, 24564 * MIB), GpuMemory(1, 2000 * MIB, 49140 * MIB)
    with GpuMeter(FakeNvml(one, other)) as all_there:
        assert all_there.read() == GpuUsage(3000 * MIB, 360.5, (first, second))
    with GpuMeter(FakeNvml(one, other), [device(1)]) as meter:
        assert meter.read() == GpuUsage(2000 * MIB, 300.0, (second,))


def test_all_that_were_asked_about_together() -> None:
    one = Card("A", 24564, used_mib=1000, milliwatts=60_500)
    other = Card("B", 24564, reserved_mib=484, used_mib=2000, milliwatts=300_000)
    older = Card("B", 24564, reserved_mib=484, used_mib=2000, memory_v2=False)
    nvml = FakeNvml(one, other)
    with GpuMeter(nvml) as both:
        assert summed(both) == (3000 * MIB, 360.5)
        one.used_mib += 500
        assert summed(both) == (3500 * MIB, 360.5)
    assert nvml.open == 0
    with GpuMeter(nvml, [device(1)]) as second:
        assert summed(second) == (2000 * MIB, 300.0)
    with GpuMeter(FakeNvml(older)) as meter:  # such a driver does not tell its own share apart
        assert summed(meter) == (2484 * MIB, None)


def test_an_instance_is_not_its_card() -> None:
    mine = Slice("3g.40gb", 40448, 60, uuid="MIG-1", used_mib=3000)
    others = Slice("3g.40gb", 40448, 60, uuid="MIG-2", used_mib=30000)
    card = Card("A100", 81920, used_mib=33000, milliwatts=200_000, mig=[mine, others])
    machine = Machine(FakeNvml(card), {"CUDA_VISIBLE_DEVICES": "MIG-1"}, None)
    with GpuMeter(machine.nvml, detect_rig(machine).devices) as meter:
        assert summed(meter) == (3000 * MIB, None)


def test_never_a_part_of_what_was_asked_about() -> None:
    """A card that is lost at the start, or while it is watched, or was never there."""
    one, other = Card("A", 24564, used_mib=1000), Card("B", 24564, used_mib=2000)
    devices = [device(0), device(1)]
    with GpuMeter(FakeNvml(one, Card("B", 24564, lost=True)), devices) as meter:
        assert meter.read() is None
    with GpuMeter(FakeNvml(one), devices) as meter:
        assert meter.read() is None
    with GpuMeter(FakeNvml(one, other), devices) as meter:
        assert summed(meter) == (3000 * MIB, None)
        other.total_mib, other.memory_error = None, pynvml.NVML_ERROR_GPU_IS_LOST
        assert meter.read() is None
        other.total_mib = 24564
        assert summed(meter) == (3000 * MIB, None)


def test_what_the_driver_does_not_say() -> None:
    card = Card("A", 24564, used_mib=1000)
    with GpuMeter(FakeNvml(card)) as meter:
        assert summed(meter) == (1000 * MIB, None)
        card.total_mib = None
        assert meter.read() is None
    for broken in (
        FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND),
        FakeNvml(Card("A", 1, lost=True)),
        FakeNvml(),
    ):
        with GpuMeter(broken) as meter:
            assert meter.read() is None
        assert broken.open == 0
