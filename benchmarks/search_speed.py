"""How many settings a search over the whole catalogue judges in a second, in process on one core.

    python benchmarks/search_speed.py [--gpu RIG] [--repeat N]

The search is `recommend` with the objective "context" and every model: of each checkpoint and
parallel layout that works, all KV cache types, shares of the memory and context lengths are judged
(starts surely, holds the requests) and the longest context is taken. A setting is one point of
(model, checkpoint, layout, KV cache type, max_num_seqs, max_num_batched_tokens, utilization,
context) with a verdict of its own; plans, speeds and the ranking are made in the same time. Cards
are built before, as in any process that has answered once; --cold counts building them too.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from hardware_db import find_rig
from planner.memory.sweep import Sweep, sweep_memory
from planner.recommendation import longest
from planner.recommendation.rank import recommend
from planner.recommendation.requirements import Objective, Requirements
from planner.workload import use_case_workload


class Counter:
    """`sweep_memory` with a count of what it judged."""

    def __init__(self) -> None:
        self.settings = 0
        self.sweeps = 0

    def __call__(self, *args: Any, **options: Any) -> Sweep:
        swept = sweep_memory(*args, **options)
        self.settings += swept.fits.size
        self.sweeps += 1
        return swept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="4090")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    rig = find_rig(options.gpu)
    wanted = Requirements(use_case_workload("chat"), "chat", objective=Objective.CONTEXT)
    counter = Counter()
    longest.sweep_memory = counter  # type: ignore[assignment]
    if not options.cold:
        recommend(rig, wanted, everything=True)
    best = 0.0
    for _ in range(1 if options.cold else options.repeat):
        counter.settings = counter.sweeps = 0
        began = time.process_time()
        found = recommend(rig, wanted, everything=True)
        seconds = time.process_time() - began
        rate = counter.settings / seconds
        best = max(best, rate)
        print(
            f"{len(found.choices)} models, {counter.sweeps} sweeps, {counter.settings:,} settings "
            f"in {seconds:.2f} s of CPU: {rate:,.0f} a second"
        )
    print(f"best: {best:,.0f} settings a second on one core ({rig.spec})")


if __name__ == "__main__":
    main()
