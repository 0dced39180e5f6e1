"""The gauge of the validate screen: each GPU as NVML tells of it, or nothing where it does not."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from hardware_db import Rig, find_rig
from model_cards import open_card
from planner import EngineConfig, plan_memory
from planner.launch.facts import Milestone
from planner.launch.progress import Reached
from planner.launch.usage import meter
from planner.tui.widgets.course import CourseCard

GIB = 2**30


def two_cards() -> Rig:
    rig = find_rig("2x4090")
    placed = (replace(device, index=index) for index, device in enumerate(rig.devices))
    return replace(rig, devices=tuple(placed))


def drawn(rig: Rig) -> list[str]:
    """The lines of the card during a launch on a rig, with what its meter reads."""
    card = open_card("Qwen/Qwen3-8B", offline=True)
    memory = plan_memory(card, rig, EngineConfig(tensor_parallel_size=2), vllm="0.33.0")

    class Alone(App[None]):
        def compose(self) -> ComposeResult:
            yield CourseCard()

    async def run() -> str:
        app = Alone()
        async with app.run_test(size=(80, 24)) as pilot:
            course = app.query_one(CourseCard)
            course.begin(memory)
            course.tell(Reached(Milestone.STARTED, 0.0))
            with meter(rig, list) as read:
                reading = read()
            if reading is not None:
                course.tell(reading)
            await pilot.pause()
            return str(course.render())

    return asyncio.run(run()).splitlines()


def test_a_bar_for_each_gpu_with_what_is_used_of_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sys.path.append(str(Path(__file__).parents[2] / "hardware_db"))
    from fake_nvml import Card, FakeNvml

    cards = Card("A", 24576, used_mib=6144, milliwatts=50_000), Card("B", 24576, used_mib=12288)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*cards))  # type: ignore[arg-type]
    lines = drawn(two_cards())
    assert any(line.startswith("18.00 GiB in use, 18.00 at most") for line in lines)
    first, second = lines[-2:]
    assert first.startswith("GPU 0 █")
    assert first.endswith(" 6.00 of 24.00 GiB")
    assert second.startswith("GPU 1 █")
    assert second.endswith("12.00 of 24.00 GiB")
    quarter, half = first.count("█"), second.count("█")
    assert abs(half - 2 * quarter) <= 1
    assert first.index("┃") == second.index("┃")
    assert max(map(len, lines)) <= 80


def test_no_gauge_without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # type: ignore[arg-type]
    lines = drawn(two_cards())
    assert lines[0].startswith("✔ started 0 s")
    assert not any("in use" in line or "█" in line for line in lines)
