"""Fit the fixed costs of speculative decoding to published speed-ups.

    python tools/fit_speculation.py [ROWS.jsonl ...]

Rewrites the times in planner/speed/data/speculation.json: of a draft pass, of a step, of a request.
Each is moved up and down as long as that brings predictions closer to the rows that state hardware,
batch and drafted tokens. Rows near break-even count more: there the numbers decide something.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import log, sqrt
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from speculation_accuracy import DEFAULT, gains  # noqa: E402
from speculation_rows import Row, read_rows  # noqa: E402

from planner.speed.drafting import drafting_costs  # noqa: E402

OUTPUT: Final = ROOT / "planner" / "speed" / "data" / "speculation.json"
_FITTED: Final = (
    *(("pass_seconds", kind) for kind in ("default", "eagle", "eagle3")),
    *(("step_seconds", kind) for kind in ("default", "eagle", "eagle3")),
    *(("request_seconds", kind) for kind in ("synchronous", "asynchronous")),
)
_NEAR: Final = 0.1  # of break-even
_NEAR_COUNTS: Final = 3.0
# Seconds that sampling and the next inputs take at least: the rows of some kinds are few.
_LEAST: Final = {"pass_seconds": 0.1e-3, "step_seconds": 0.3e-3, "request_seconds": 0.0}
_DIGITS: Final = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, nargs="*", help="measurements, JSON lines")
    files = parser.parse_args().rows or [DEFAULT, DEFAULT.with_name("acceptance_tables.jsonl")]
    error = fit([row for path in files for row in read_rows(path)])
    OUTPUT.write_text(json.dumps(drafting_costs(), indent=1) + "\n", "utf-8")
    print(f"mean error {100 * error:.1f} %: {OUTPUT}")


def fit(rows: list[Row]) -> float:
    """Change the costs in place (those that predictions read); the mean error that is left."""
    costs = drafting_costs()
    for group, kind in _FITTED:
        costs[group][kind] = max(_LEAST[group], costs[group][kind])
    best, factor = loss(rows), 1.5
    while factor > 1.03:
        better = False
        for group, kind in _FITTED:
            for change in (factor, 1 / factor):
                kept = costs[group][kind]
                costs[group][kind] = max(_LEAST[group], kept * change)
                found = loss(rows)
                if found < best - 1e-6:
                    best, better = found, True
                else:
                    costs[group][kind] = kept
        if not better:
            factor = sqrt(factor)
    for group, kind in _FITTED:
        costs[group][kind] = round(costs[group][kind], _DIGITS)
    return best


def loss(rows: list[Row]) -> float:
    """Mean error of predicted speed-ups, small ones counted less."""
    total = weights = 0.0
    for row, predicted in gains(rows):
        if predicted.gain is None or row.speedup is None:
            continue
        weight = _NEAR_COUNTS if abs(row.speedup - 1) < _NEAR else 1.0
        total += weight * sqrt(log(predicted.gain.value / row.speedup) ** 2 + 0.02**2)
        weights += weight
    return total / weights


if __name__ == "__main__":
    main()
