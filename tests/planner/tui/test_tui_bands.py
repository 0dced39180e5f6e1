"""Every number that is not exact is shown with its band: as text, and in the bar as a hatch."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tui_driver import SIZES, SMALL, Driver, drive

from hardware_db import find_rig
from model_cards import open_card
from planner import plan_memory, predict_speed
from planner.memory.plan import MemoryPlan

GIB = 2**30


def plan(context: int = 16384) -> MemoryPlan:
    config = replace(SMALL.config, max_model_len=context)
    return plan_memory(
        open_card(SMALL.model, offline=True), find_rig(SMALL.gpu), config, vllm=SMALL.vllm
    )


def test_the_bar_is_hatched_as_far_as_each_part_may_be_less() -> None:
    memory = plan()
    rank = memory.tightest
    bands = {"A": rank.activation, "N": rank.non_torch, "G": rank.cuda_graphs, "K": rank.kv_cache}

    async def script(driver: Driver) -> None:
        bar = driver.text("#vram").splitlines()[0]
        of_a_byte = len(bar) / memory.device_total.value
        pieces = dict(re.findall(r"([A-Z.])([^A-Z.]*)", bar))
        assert list(pieces) == ["W", "B", "A", "N", "G", "K", "."]
        for letter, size in bands.items():
            hatch = pieces[letter].count("╱")
            wanted = (size.value - size.low) * of_a_byte
            assert abs(hatch - wanted) <= 1, letter
            assert "╱" * hatch in pieces[letter]
        assert pieces["K"].startswith("╱")
        assert pieces["A"].endswith("╱")
        assert "╱" not in pieces["W"] + pieces["B"] + pieces["."]
        assert "╱ may be less" in str(driver.plan.query_one("#vram").border_title)

    drive(script, size=(200, 60))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes_requests_and_capacity_have_bands(size: tuple[int, int]) -> None:
    memory = plan()
    rank = memory.tightest

    async def script(driver: Driver) -> None:
        legend = driver.text("#vram")
        for part in (rank.activation, rank.non_torch, rank.cuda_graphs, rank.kv_cache):
            low, high = part.low / GIB, part.high / GIB
            assert f"{part.value / GIB:.2f} [{low:.2f}-{high:.2f}]" in legend.replace("  [", " [")
        held = memory.max_concurrency
        band = f"{held.value:.1f} [{held.low:.1f}-{held.high:.1f}]"
        assert f"{band} requests of 16,384 tokens at once" in driver.text("#verdict")
        rows = driver.text("#tab-capacity").splitlines()
        here = next(row for row in rows if "▸" in row)
        assert band in here
        short = next(row for row in rows if "1,024" in row)
        held = plan(1024).max_concurrency
        assert f"{held.value:.1f} [{held.low:.1f}-{held.high:.1f}]" in short
        assert not any("[" in row for row in rows if "does not" in row)

    drive(script, size=size)


def test_one_alone_stands_beside_many_at_once() -> None:
    memory = plan()
    settings = replace(SMALL, concurrency=8)
    many = predict_speed(memory, settings.workload)
    alone = predict_speed(memory, SMALL.workload)
    assert many.ttft_loaded is not None
    assert alone.ttft is not None

    async def script(driver: Driver) -> None:
        card = driver.text("#speed-card")
        assert f"{many.total.value:.0f} [" in card
        assert f"\n{many.per_user.value:.0f} [" in card
        assert f"\n{alone.per_user.value:.0f} [" in card
        assert many.ttft_loaded is not None
        assert alone.ttft is not None
        assert f"\n{many.ttft_loaded.value * 1000:.0f} [" in card
        assert f"\n{alone.ttft.value * 1000:.0f} [" in card
        assert card.count("one alone") == 2
        await driver.focus("concurrency")
        await driver.press("minus", "minus", "minus")
        assert driver.plan.settings.concurrency == 1
        card = driver.text("#speed-card")
        assert "alone" not in card
        assert f"{alone.per_user.value:.0f} [" in card

    drive(script, settings)
