"""What can wait gives way to keys, and ends once nobody wants it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from itertools import pairwise
from threading import Event

from planner.tui.background import SpareTime
from planner.turns import give_way


def test_what_is_done_in_spare_time_waits_after_a_key() -> None:
    async def run() -> None:
        spare = SpareTime()
        spare.postpone()
        began = time.monotonic()
        assert await spare.answer(lambda: 42) == 42
        assert time.monotonic() - began >= 0.09

    asyncio.run(run())


def test_a_key_stops_it_for_a_moment_in_the_middle() -> None:
    async def run() -> None:
        spare, began, steps = SpareTime(), Event(), list[float]()

        def work() -> None:
            for _ in range(200):
                began.set()
                give_way()
                steps.append(time.monotonic())
                time.sleep(0.001)

        working = asyncio.create_task(spare.answer(work))
        await asyncio.to_thread(began.wait)
        spare.postpone()
        await working
        pauses = [after - before for before, after in pairwise(steps)]
        assert len(steps) == 200
        assert max(pauses) >= 0.05

    asyncio.run(run())


def test_it_ends_where_nobody_waits_for_it_any_more() -> None:
    async def run() -> None:
        spare, began, ended, done = SpareTime(), Event(), Event(), Event()

        def work() -> None:
            began.set()
            try:
                while not done.is_set():
                    give_way()
                    time.sleep(0.001)
            finally:
                ended.set()

        working = asyncio.create_task(spare.answer(work))
        await asyncio.to_thread(began.wait)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        assert await asyncio.to_thread(ended.wait, 5)

    asyncio.run(run())


def test_what_nobody_asked_to_give_way_goes_on() -> None:
    give_way()
