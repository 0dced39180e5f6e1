"""How well speculation is predicted: acceptance length, speed-up, and whether it pays.

    python benchmarks/speculation_accuracy.py [ROWS.jsonl] [--json] [--rows]
                                              [--leave-one-source-out]

Acceptance length: every chain that was measured at several numbers of drafted tokens is fitted at
the smallest and predicted at the others; those that start at one token are shown apart. Speed-up:
rows that state hardware, batch and drafted tokens. Decision: whether at least 1.1x is gained, on
every row with hardware and a method that vLLM has; balanced, so that naming the common answer every
time scores 50 %. Rows that cannot be predicted are listed and count as misses.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from msgspec import Struct
from speculation_plans import Predicted, predicted_gain
from speculation_rows import Row, read_rows, series_of

from planner.speed.acceptance import acceptance_data, curve_of, iid_length
from planner.speed.drafting import drafting_costs
from planner.speed.speculative import WORTH_IT

DEFAULT: Final = Path(__file__).parent.parent / "tests" / "data" / "acceptance.jsonl"


class Extrapolation(Struct, frozen=True):
    """An acceptance length predicted from a smaller number of drafted tokens."""

    row: Row
    start: int  # the tokens it was fitted at
    predicted: float
    iid: float  # by the textbook's single rate

    @property
    def error(self) -> float:
        """Relative, signed."""
        assert self.row.length is not None
        return self.predicted / self.row.length - 1

    @property
    def iid_error(self) -> float:
        assert self.row.length is not None
        return self.iid / self.row.length - 1

    @property
    def inside(self) -> bool:
        """Whether the 90 % band of extrapolations holds the measurement."""
        return abs(self.error) <= acceptance_data()["extrapolation_band"]


def extrapolations(rows: Sequence[Row]) -> list[Extrapolation]:
    """Every chain's other lengths, from its smallest number of drafted tokens."""
    found = []
    for series in series_of(rows):
        start = min(series)
        first = series[start]
        assert first.length is not None
        rates = curve_of(first.method or "default").from_length(first.length, start)
        single = _single_rate(first.length, start)
        for tokens, row in sorted(series.items()):
            if tokens > start:
                length = float(rates.length(tokens))
                found.append(Extrapolation(row, start, length, iid_length(single, tokens)))
    return found


def _single_rate(length: float, tokens: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        low, high = (rate, high) if iid_length(rate, tokens) < length else (low, rate)
    return low


def gains(rows: Sequence[Row]) -> list[tuple[Row, Predicted]]:
    """Predicted gains of the rows that state hardware, batch and drafted tokens."""
    stated = [r for r in rows if r.speedup and r.hardware and r.batch and r.tokens]
    return [(row, predicted_gain(row, rows)) for row in stated]


def decisions(rows: Sequence[Row]) -> list[tuple[Row, Predicted]]:
    """Predicted gains of every row with hardware whose method vLLM has."""
    stated = [r for r in rows if r.speedup and r.hardware and r.method]
    return [(row, predicted_gain(row, rows)) for row in stated]


def gains_left_out(rows: Sequence[Row]) -> list[tuple[Row, Predicted]]:
    """The same, each source's rows by costs that were fitted without them."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
    from fit_speculation import fit

    costs, found = drafting_costs(), []
    shipped = json.dumps(costs)
    stated = [row for row, _ in gains(rows)]
    for source in dict.fromkeys(row.source for row in stated):
        fit([row for row in rows if row.source != source])
        found += [(row, predicted_gain(row, rows)) for row in stated if row.source == source]
        costs.update(json.loads(shipped))
    return found


def balanced_accuracy(found: Sequence[tuple[Row, Predicted]]) -> float | None:
    """Mean of the shares of right answers among rows where it pays and where it does not."""
    shares = []
    for pays in (True, False):
        of_kind = [p for row, p in found if ((row.speedup or 0) >= WORTH_IT) is pays]
        if not of_kind:
            return None
        right = [p.gain is not None and (p.gain.value >= WORTH_IT) is pays for p in of_kind]
        shares.append(mean(right))
    return mean(shares)


def percent(errors: Sequence[float]) -> dict[str, float]:
    """Median, mean, 90th percentile and bias of relative errors, in percent."""
    if not errors:
        return {"rows": 0}
    sizes = sorted(abs(100 * each) for each in errors)
    return {
        "rows": len(sizes),
        "median": round(median(sizes), 2),
        "mean": round(mean(sizes), 2),
        "p90": round(sizes[max(0, -(-9 * len(sizes) // 10) - 1)], 2),
        "bias": round(100 * mean(errors), 2),
    }


def score(rows: Sequence[Row], *, left_out: bool = False) -> dict[str, Any]:
    """All figures as one object: shares from 0 to 1, errors in percent where their names say so.

    Speed-ups `left_out`: by costs that were fitted without their source.
    """
    taus = extrapolations(rows)
    later, from_one = ([t for t in taus if (t.start == 1) is one] for one in (False, True))
    found = gains_left_out(rows) if left_out else gains(rows)
    made = [(row, p) for row, p in found if p.gain is not None]

    def errors(wanted: Sequence[tuple[Row, Predicted]]) -> list[float]:
        return [p.gain.value / row.speedup - 1 for row, p in wanted if p.gain and row.speedup]

    def held(wanted: Sequence[tuple[Row, Predicted]]) -> float | None:
        inside = [p.gain.low <= row.speedup <= p.gain.high for row, p in wanted
                  if p.gain and row.speedup]  # fmt: skip
        return round(mean(inside), 3) if inside else None

    tau, speed = percent([t.error for t in later]), percent(errors(made))
    decided = decisions(rows)
    engines = [each for each in decided if not each[0].engine.startswith("Spec-Bench")]
    return {
        "rows": len(rows),
        "tau_median_abs_pct": tau.get("median"),
        "tau_p90_abs_pct": tau.get("p90"),
        "tau_band90_coverage": round(mean(t.inside for t in taus), 3) if taus else None,
        "tau": {
            "from_two_or_more": tau,
            "from_one": percent([t.error for t in from_one]),
            "all": percent([t.error for t in taus]),
            "textbook_iid": percent([t.iid_error for t in taus]),
        },
        "speedup_median_abs_pct": speed.get("median"),
        "speedup_p90_abs_pct": speed.get("p90"),
        "speedup_coverage": round(len(made) / len(found), 3) if found else None,
        "speedup_band90_coverage": held(made),
        "speedup": {
            "batch_1": percent(errors([each for each in made if each[0].batch == 1])),
            "larger_batches": percent(errors([each for each in made if each[0].batch != 1])),
            "all": speed,
        },
        "decision_accuracy": _rounded(balanced_accuracy(decided)),
        "decision_accuracy_serving_engines": _rounded(balanced_accuracy(engines)),
        "decision_rows": len(decided),
        "not_predicted": sorted(
            {f"{r.target} on {r.hardware}: {p.problem}" for r, p in decided if p.problem}
        ),
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--json", action="store_true", help="one object")
    parser.add_argument(
        "--leave-one-source-out",
        action="store_true",
        help="speed-ups by costs that were fitted without the row's source",
    )
    parser.add_argument("--rows", dest="every", action="store_true", help="every speed-up")
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    result = score(rows, left_out=arguments.leave_one_source_out)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{len(rows)} rows of {arguments.rows}")
    print("\nAcceptance length, from the smallest number of drafted tokens (error in percent)")
    for name, figures in result["tau"].items():
        print(f"  {name:18} {_line(figures)}")
    print(f"  90 % bands hold {_share(result['tau_band90_coverage'])}")
    print("\nSpeed-up, rows with hardware, batch and drafted tokens")
    for name, figures in result["speedup"].items():
        print(f"  {name:18} {_line(figures)}")
    print(f"  90 % bands hold {_share(result['speedup_band90_coverage'])}")
    right, alone = result["decision_accuracy"], result["decision_accuracy_serving_engines"]
    print(
        f"\nWorth it at {WORTH_IT:g}x: {_share(right)} balanced accuracy on "
        f"{result['decision_rows']} rows with hardware; serving engines alone {_share(alone)}"
    )
    for line in result["not_predicted"]:
        print(f"  not predicted: {line}")
    if arguments.every:
        for row, made in decisions(rows):
            gain = made.gain
            shown = f"{gain.value:.2f} [{gain.low:.2f}-{gain.high:.2f}]" if gain else "-"
            print(f"  {row.named:12} {row.target[:26]:26} {str(row.hardware)[:14]:14} "
                  f"B={row.batch} k={row.tokens} {row.text[:20]:20} measured {row.speedup:.2f} "
                  f"predicted {shown}")  # fmt: skip


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _line(figures: dict[str, float]) -> str:
    return "  ".join(f"{name} {value}" for name, value in figures.items())


if __name__ == "__main__":
    main()
