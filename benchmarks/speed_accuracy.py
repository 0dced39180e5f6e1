"""How close predicted speeds come to published measurements: time between tokens, and bands.

    python benchmarks/speed_accuracy.py MEASUREMENTS.jsonl [--leave-one-source-out] [--json]

Scored are rows of vLLM without speculation, online or as a static batch, with at most 256 requests
at once; what cannot be predicted counts as a miss and is listed. Two AMD cards are a group of their
own, other engines are only shown (`--others`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from speed_plans import Measured, Missed, measured, tpot
from speed_rows import SpeedRow, read_rows

from planner.speed.bands import time_band
from planner.speed.constants import Constants

SHOWN_GROUPS: Final = ("batch-1 dense", "batch-1 MoE", "MoE under concurrency",
                       "above 64 streams")  # fmt: skip


class Scored(Struct, frozen=True):
    """A row with its predicted time between tokens, in seconds."""

    measured: Measured
    predicted: float

    @property
    def error(self) -> float:
        """Of the time, in per cent; positive where it was faster than predicted."""
        return 100 * (self.predicted / self.measured.tpot - 1)

    @property
    def inside(self) -> bool:
        """Whether the measured time lies in the band."""
        running = min(self.measured.users, self.measured.load.most_running)
        band = time_band(self.measured.memory, running)
        return band.low * self.predicted <= self.measured.tpot <= band.high * self.predicted


def figures(rows: Sequence[Scored]) -> dict[str, Any]:
    """The errors of some rows."""
    errors = [row.error for row in rows]
    sizes = [abs(error) for error in errors]
    return {
        "rows": len(rows),
        "median_abs_pct": _rounded(median(sizes)) if rows else None,
        "mean_abs_pct": _rounded(sum(sizes) / len(sizes)) if rows else None,
        "p90_abs_pct": _rounded(percentile(sizes, 0.9)) if rows else None,
        "within_20_pct": _rounded(share(size <= 20 for size in sizes)),
        "bias_pct": _rounded(median(errors)) if rows else None,
        "band90_coverage": _rounded(share(row.inside for row in rows)),
    }


def share(marks: Iterable[bool]) -> float | None:
    """Share of those that are true."""
    held = list(marks)
    return sum(held) / len(held) if held else None


def percentile(values: Iterable[float], part: float) -> float:
    """The value that so large a part does not exceed, between neighbours in proportion."""
    held = sorted(values)
    place = part * (len(held) - 1)
    below = int(place)
    above = min(below + 1, len(held) - 1)
    return held[below] + (place - below) * (held[above] - held[below])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def groups_of(row: Scored) -> list[str]:
    """The groups that a row counts in."""
    one, known = row.measured, row.measured.row
    found = [
        f"model: {_model_kind(one)}",
        f"concurrency: {_concurrency(one.users)}",
        f"gpu: {_gpu_class(one)}",
        f"quantization: {one.memory.card.format_kind}",
        f"engine: {_era(known)}",
    ]
    if one.users == 1:
        found.append("batch-1 dense" if one.kind == "dense" else "batch-1 MoE")
        if one.kind == "dense":
            found.append(f"batch-1 dense, {_era(known)}")
    elif one.kind == "moe":
        found.append("MoE under concurrency")
    if one.users > 64:
        found.append("above 64 streams")
    return found


def _model_kind(one: Measured) -> str:
    return "MoE" if one.kind == "moe" else "dense"


def _concurrency(users: float) -> str:
    for most, name in ((1, "1"), (4, "2 to 4"), (16, "5 to 16"), (64, "17 to 64")):
        if users <= most:
            return name
    return "65 to 256"


def _gpu_class(one: Measured) -> str:
    slug = one.row.gpu
    if slug.startswith(("b200", "b300", "gb200", "gb300")):
        return "B200, B300"
    if slug.startswith(("h100", "h200", "gh200", "h20")):
        return "H100, H200"
    if slug.startswith("a100"):
        return "A100"
    return "unified memory" if slug.startswith(("gb10", "jetson")) else "other cards"


def _era(row: SpeedRow) -> str:
    return "up to 0.6" if row.legacy else "0.8 and later"


def score(
    rows: Iterable[SpeedRow], constants_for: Callable[[Measured], Constants] | None = None
) -> tuple[list[Scored], list[Missed]]:
    """Rows with their predictions, and those that have none."""
    scored, missing = [], []
    for row in rows:
        found = measured(row)
        if isinstance(found, Missed):
            missing.append(found)
            continue
        constants = constants_for(found) if constants_for is not None else None
        scored.append(Scored(found, tpot(found, constants)))
    return scored, missing


def left_out(rows: Iterable[SpeedRow]) -> Callable[[Measured], Constants]:
    """For each row the constants fitted without its source."""
    from fit_speed import fit, nested

    found = [measured(row) for row in rows]
    known = [one for one in found if isinstance(one, Measured) and one.doubtful is None]
    fitted: dict[str, Constants] = {}

    def constants(one: Measured) -> Constants:
        if one.source not in fitted:
            others = [other for other in known if other.source != one.source]
            fitted[one.source] = nested(fit(others))
        return fitted[one.source]

    return constants


def report(scored: Sequence[Scored], missing: Sequence[Missed]) -> dict[str, Any]:
    """The whole answer as one object."""
    main = [row for row in scored if not row.measured.apart]
    apart = [row for row in scored if row.measured.apart]
    groups: dict[str, list[Scored]] = {}
    for row in main:
        for name in groups_of(row):
            groups.setdefault(name, []).append(row)
    for row in apart:
        groups.setdefault("apart: MI250 and R9700", []).append(row)
    whole, dense = figures(main), figures(groups.get("batch-1 dense", []))
    total = len(scored) + len(missing)
    return {
        "rows": total,
        "coverage": round(len(scored) / total, 4) if total else None,
        "tpot_median_abs_pct": whole["median_abs_pct"],
        "tpot_mean_abs_pct": whole["mean_abs_pct"],
        "tpot_p90_abs_pct": whole["p90_abs_pct"],
        "batch1_dense_median_abs_pct": dense["median_abs_pct"],
        "batch1_dense_p90_abs_pct": dense["p90_abs_pct"],
        "band90_coverage": whole["band90_coverage"],
        "groups": {
            name: figures(groups[name])
            for name in sorted(groups, key=lambda name: (name not in SHOWN_GROUPS, name))
        },
    }


COLUMNS: Final = (
    ("rows", "rows", ""),
    ("median", "median_abs_pct", " %"),
    ("mean", "mean_abs_pct", " %"),
    ("p90", "p90_abs_pct", " %"),
    ("within 20 %", "within_20_pct", "share"),
    ("bias", "bias_pct", "signed"),
    ("in band", "band90_coverage", "share"),
)


def table(scored: Sequence[Scored], answer: dict[str, Any]) -> list[tuple[str, ...]]:
    """The score as rows of text, a header first."""
    main = figures([row for row in scored if not row.measured.apart])
    lines: list[tuple[str, ...]] = [("", *(name for name, _, _ in COLUMNS))]
    for name, values in [("all", main), *answer["groups"].items()]:
        lines.append((name, *(_cell(values[key], unit) for _, key, unit in COLUMNS)))
    return lines


def _cell(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "share":
        return f"{100 * value:.0f} %"
    if unit == "signed":
        return f"{value:+.1f} %"
    return f"{value:.1f}{unit}" if isinstance(value, float) else f"{value}{unit}"


def line_of(row: Scored) -> str:
    """A row in one line."""
    one = row.measured
    mark = "" if row.inside else "  outside"
    return (
        f"{one.row.row_id:7} {one.row.model[-32:]:32} {one.row.quant:14} {one.row.rig:22} "
        f"{one.users:6g} {1e3 * one.tpot:9.2f} {1e3 * row.predicted:9.2f} ms "
        f"{row.error:+7.1f} %{mark}"
    )


def others_of(rows: Iterable[SpeedRow]) -> list[SpeedRow]:
    """Rows of other engines, without speculation, that state a time between tokens."""
    shown = (row for row in rows if row.engine != "vLLM" and row.tpot and not row.speculates)
    return [replace(row, scored=True) for row in shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--others", action="store_true", help="other engines instead of vLLM")
    parser.add_argument("--markdown", action="store_true", help="only the table, as Markdown")
    parser.add_argument(
        "--leave-one-source-out",
        action="store_true",
        help="constants fitted without the source that is scored",
    )
    arguments = parser.parse_args()
    rows = list(read_rows(arguments.file))
    chosen = others_of(rows) if arguments.others else [row for row in rows if row.scored]
    fitted = left_out(chosen) if arguments.leave_one_source_out else None
    scored, missing = score(chosen, fitted)
    answer = report(scored, missing)
    if arguments.json:
        print(json.dumps(answer))
        return
    lines = table(scored, answer)
    if arguments.markdown:
        lines.insert(1, ("---",) * len(lines[0]))
        for line in lines:
            print(f"| {' | '.join(line)} |")
        return
    if arguments.rows:
        for row in scored:
            print(line_of(row))
        print()
    for name, *cells in lines:
        print(f"{name:32}" + "".join(f"{cell:>13}" for cell in cells))
    doubtful = [row for row in scored if row.measured.doubtful is not None]
    print(f"\n{len(scored)} of {answer['rows']} rows predicted; {len(doubtful)} of them cannot "
          "have been measured as they say, and were left out of the fit")  # fmt: skip
    for row in missing:
        print(f"not predicted: {row.row.row_id} {row.row.model}: {row.reason}")


if __name__ == "__main__":
    main()
