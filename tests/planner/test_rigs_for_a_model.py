"""Which rigs serve a model: none too small, none larger than need be, cheapest first."""

from __future__ import annotations

from functools import cache

from launches import bundled

from hardware_db import find_rig
from planner import Requirements, Unfit, Workload, settle
from planner.engine.releases import find_release
from planner.recommendation.rigs import RigChoice, rigs_for

MODEL = "meta-llama/Llama-3.3-70B-Instruct"
WEIGHT_BYTES = 70_553_706_496 * 2
WANTED = Requirements(Workload(1024, 384), "chat")
RELEASE = find_release("0.33.0")


@cache
def choices() -> list[RigChoice]:
    return rigs_for(bundled(MODEL), WANTED, RELEASE, limit=12)


def test_there_are_some() -> None:
    assert len(choices()) == 12
    assert len({choice.gpu.slug for choice in choices()}) == 12


def test_every_rig_has_more_memory_than_the_weights_need() -> None:
    for choice in choices():
        rig = find_rig(choice.spec)
        assert rig.gpu_count == choice.count
        memory = sum(device.total_bytes or 0 for device in rig.devices)
        assert memory > WEIGHT_BYTES, choice.spec
        assert choice.settled.memory.starts.ok


def test_half_of_the_rig_would_not_do() -> None:
    for choice in choices()[:6]:
        if choice.count == 1:
            continue
        half = choice.gpu.slug if choice.count == 2 else f"{choice.count // 2}x{choice.gpu.slug}"
        assert isinstance(settle(bundled(MODEL), find_rig(half), WANTED, RELEASE), Unfit), half


def test_prices_first_and_rising() -> None:
    prices = [choice.usd_per_hour for choice in choices()]
    known = [price for price in prices if price is not None]
    assert known == sorted(known)
    assert prices[: len(known)] == known
    for choice in choices():
        hourly = [price.usd_low for price in choice.gpu.prices if price.per == "hour"]
        if choice.usd_per_hour is not None:
            assert choice.usd_per_hour / choice.count in hourly
