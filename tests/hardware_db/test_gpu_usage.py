"""What GPUs have in use, over made-up cards."""

from __future__ import annotations

import pynvml
from fake_nvml import MIB, Card, FakeNvml

from hardware_db.usage import GpuMeter, GpuUsage


def test_all_that_were_asked_about_together() -> None:
    one = Card("A", 24564, used_mib=1000, milliwatts=60_500)
    other = Card("B", 24564, reserved_mib=484, used_mib=2000, milliwatts=300_000)
    nvml = FakeNvml(one, other)
    with GpuMeter(nvml) as both:
        assert both.read() == GpuUsage(3484 * MIB, 360.5)
        one.used_mib += 500
        assert both.read() == GpuUsage(3984 * MIB, 360.5)
    assert nvml.open == 0
    with GpuMeter(nvml, [1]) as second:
        assert second.read() == GpuUsage(2484 * MIB, 300.0)


def test_what_the_driver_does_not_say() -> None:
    card = Card("A", 24564, used_mib=1000)
    with GpuMeter(FakeNvml(card)) as meter:
        assert meter.read() == GpuUsage(1000 * MIB, None)
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
