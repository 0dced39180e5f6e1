"""How many requests of which lengths are sent, so that a level takes the time that it may."""

from __future__ import annotations

import pytest

from planner.launch.load import Level, levels
from planner.launch.request import Completion
from planner.workload import Workload

CHAT = Workload(1024, 256, 4)


def seen(ttft: float, tpot: float, prompt_tokens: int = 50) -> tuple[Completion, ...]:
    slow_first = Completion(prompt_tokens, 32, 10 * ttft + 5, 2 * tpot)
    return (slow_first, *[Completion(prompt_tokens, 32, ttft, tpot)] * 3)


def test_a_gpu_gets_the_lengths_of_the_workload() -> None:
    """0.2 ms a token of a prompt, 10 ms a token of an answer: rounds of 2.8 and of 4.7 s."""
    alone, together = levels(CHAT, 4096, seen(0.020, 0.010), None)
    assert alone == Level(1, 5, 1024, 256)
    assert together == Level(4, 12, 1024, 256)


def test_a_slow_cpu_gets_shorter_ones() -> None:
    """10 ms a token of a prompt, 200 ms a token of an answer: 3.75 seconds of each."""
    alone, together = levels(CHAT, 4096, seen(0.7, 0.2), None)
    assert alone == Level(1, 2, 375, 18)
    assert together == Level(4, 4, 375, 18)  # 20.4 s, once


@pytest.mark.parametrize("tpot", [0.001, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("ttft", [0.02, 0.2, 1.0, 3.0])
def test_both_take_less_than_a_minute(ttft: float, tpot: float) -> None:
    """If prompts are read one after the other, at the pace that was seen."""
    found = levels(Workload(8192, 1024, 4), 16384, seen(ttft, tpot), None)
    reading = max(0.0, ttft - tpot) / 50
    took = sum(
        each.requests * each.prompt_tokens * reading
        + each.requests / each.concurrency * each.output_tokens * tpot
        for each in found
    )
    assert took < 60
    assert all(each.requests >= each.concurrency for each in found)


def test_what_is_asked_for_is_sent() -> None:
    assert levels(CHAT, 4096, seen(3.0, 0.5), 6) == (Level(1, 6, 1024, 256), Level(4, 6, 1024, 256))
    assert levels(CHAT, 512, seen(3.0, 0.5), 6)[0] == Level(1, 6, 255, 256)
    assert levels(CHAT, 4096, (), None)[0] == Level(1, 64, 1024, 256)
