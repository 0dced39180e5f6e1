"""How close plans come to real launches: memory by component, tokens, outcome, and the bands.

    python benchmarks/launch_accuracy.py LAUNCHES.jsonl [--leave-one-source-out] [--json]

Scored are complete, consistent rows of vLLM as published; `--all` takes the rest too. The largest
source is one programme on one GPU and one release: it is left out whole (a), left out architecture
by architecture (b), and all other sources one by one (c).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from launch_folds import folds, largest, programme_left_out
from launch_plans import NotPlanned, Predicted, predict
from launch_rows import Launch, read_launches

from planner.memory.constants import Table, with_constants
from planner.quantity import Quantity

SMALL_POOL = 8.0  # GiB; below it an error counts in GiB, not as a share
MEMORY_OUTCOMES = ("kv_too_small", "oom", "free_memory_error")
SURE = 0.6  # a launch that failed for memory must not be said to start with more than this
# Figures that a band is checked for; the share that must lie inside is 0.85 to 0.95.
FIGURES = ("weights", "activation", "non_torch", "graphs", "kv_cache", "longest")
_PRINTED = {"weights": 0.005, "activation": 0.005, "non_torch": 0.005, "graphs": 0.005,
            "kv_cache": 0.005}  # fmt: skip


class Scored(Struct, frozen=True):
    """A launch with vplan's answer."""

    launch: Launch
    predicted: Predicted

    def pair(self, figure: str) -> tuple[float, Quantity] | None:
        """(printed, predicted) of a figure, None where it was not seen or not predicted."""
        if figure == "tokens_or_concurrency":
            return self.room
        printed = getattr(self.launch, figure)
        predicted = getattr(self.predicted, figure)
        if printed is None or predicted is None:
            return None
        if figure == "kv_cache" and self.predicted.pinned:
            return None  # what was asked for is what there is
        return printed, predicted

    @property
    def room(self) -> tuple[float, Quantity] | None:
        """Tokens of a model with one kind of cache, concurrency of a hybrid."""
        figure = "tokens" if self.predicted.groups == 1 else "concurrency"
        return self.pair(figure) or (self.pair("concurrency") if figure == "tokens" else None)

    @property
    def judged(self) -> bool:
        """Whether its outcome is one that a plan of the memory answers."""
        return self.launch.started or self.launch.outcome in MEMORY_OUTCOMES

    @property
    def outcome_right(self) -> bool:
        return (self.predicted.chance_of_refusal < 0.5) == self.launch.started

    @property
    def false_start(self) -> bool:
        """Said to start, by more than `SURE`, and failed for memory."""
        failed = self.launch.outcome in MEMORY_OUTCOMES
        return failed and 1 - self.predicted.chance_of_refusal > SURE


def share_error(pair: tuple[float, Quantity]) -> float:
    """Error of the value in per cent; positive where it is optimistic about a pool."""
    printed, predicted = pair
    return 100 * (predicted.value - printed) / abs(printed)


def inside(figure: str, pair: tuple[float, Quantity]) -> bool:
    """Whether the printed figure lies inside the band, as far as it was printed."""
    printed, predicted = pair
    slack = _PRINTED.get(figure, 0.01 * abs(printed) if figure == "longest" else 0.0)
    return predicted.low - slack <= printed <= predicted.high + slack


def mean(values: Iterable[float]) -> float | None:
    held = list(values)
    return round(sum(held) / len(held), 3) if held else None


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that so large a share does not exceed."""
    held = sorted(values)
    return round(held[min(len(held) - 1, int(share * len(held)))], 3) if held else None


def figures(rows: Sequence[Scored]) -> dict[str, Any]:
    """All figures of some rows."""
    pools = [pair for row in rows if (pair := row.pair("kv_cache")) is not None]
    large = [abs(share_error(pair)) for pair in pools if pair[0] >= SMALL_POOL]
    small = [abs(pair[1].value - pair[0]) for pair in pools if pair[0] < SMALL_POOL]
    # 3 % of a pool, or of the smallest that counts as a share.
    optimistic = [pair[1].value - pair[0] > 0.03 * max(abs(pair[0]), SMALL_POOL) for pair in pools]
    judged = [row for row in rows if row.judged]
    started = [row.outcome_right for row in judged if row.launch.started]
    failed = [row.outcome_right for row in judged if not row.launch.started]
    both = [mean(map(float, each)) for each in (started, failed) if each]
    right = [row.outcome_right for row in judged]
    errors: dict[str, Any] = {}
    held: list[bool] = []
    of_pools: list[bool] = []
    for figure in (*FIGURES, "tokens_or_concurrency"):
        pairs = [pair for row in rows if (pair := row.pair(figure)) is not None]
        key = "kv" if figure == "kv_cache" else figure
        if figure != "kv_cache":
            errors[f"{key}_mean_abs_pct"] = mean(abs(share_error(pair)) for pair in pairs)
            errors[f"{key}_rows"] = len(pairs)
        if figure in ("weights", "activation", "non_torch", "graphs", "kv_cache"):
            marks = [inside(figure, pair) for pair in pairs]
            held += marks
            of_pools += marks if figure == "kv_cache" else []
            errors[f"{key}_band90_coverage"] = mean(map(float, marks))
    return {
        "rows": len(rows),
        **errors,
        "kv_rows": len(pools),
        "kv_mean_abs_pct": mean(large),
        "kv_p95_abs_pct": percentile(large, 0.95),
        "kv_small_rows": len(small),
        "kv_small_mean_abs_gib": mean(small),
        "kv_optimistic_over_3pct": mean(map(float, optimistic)),
        "outcomes": {
            "started": len(started),
            "started_right": sum(started),
            "failed": len(failed),
            "failed_right": sum(failed),
        },
        "outcome_accuracy": mean(map(float, right)),
        "outcome_balanced_accuracy": mean(value for value in both if value is not None),
        "false_starts": sum(row.false_start for row in judged),
        "band90_coverage": mean(map(float, held)),
    }


def release_range(launch: Launch) -> str:
    """The releases that are scored together."""
    if not launch.stated:
        return "not stated"
    key = tuple(int(part) for part in launch.releases[0].split("."))
    if key >= (0, 20):
        return "0.20 and newer"
    return "0.17 to 0.19" if key >= (0, 17) else "up to 0.16"


def gpu_class(launch: Launch) -> str:
    """The kind of card, as its memory and software stack go."""
    kind = launch.gpu_kind
    if kind.startswith("H100"):
        return "H100"
    if kind in ("H200", "B200", "B300", "H20"):
        return "H200 and B200"
    if kind.startswith("MI"):
        return "MI300X"
    return "SoC" if kind.startswith(("GB10", "Jetson")) else "other cards"


def score(
    launches: Sequence[Launch], fitted: Callable[[Launch], Table] | None = None
) -> tuple[list[Scored], list[tuple[Launch, str]]]:
    """Launches with their plans, and those that cannot be planned with the reason.

    `fitted` gives the constants to plan a launch with, None today's.
    """
    scored, missing = [], []
    for launch in launches:
        table = fitted(launch) if fitted is not None else None
        try:
            with with_constants(table):
                scored.append(Scored(launch, predict(launch)))
        except NotPlanned as reason:
            missing.append((launch, str(reason)))
    return scored, missing


def grouped(scored: Sequence[Scored], programme: str) -> dict[str, dict[str, list[Scored]]]:
    """The rows by each way to divide them."""
    by: dict[str, dict[str, list[Scored]]] = defaultdict(lambda: defaultdict(list))
    for row in scored:
        launch = row.launch
        where = "largest source" if launch.source_group == programme else "all other sources"
        by["source"][where].append(row)
        by["release"][release_range(launch)].append(row)
        by["gpu"][gpu_class(launch)].append(row)
        by["quantization"][row.predicted.format or "?"].append(row)
        h100 = gpu_class(launch) == "H100" and release_range(launch) == "0.17 to 0.19"
        by["bar"]["H100, 0.17 to 0.19" if h100 else "elsewhere"].append(row)
    return by


def report(
    scored: Sequence[Scored],
    missing: Sequence[tuple[Launch, str]],
    launches: Sequence[Launch],
    extra: dict[str, Any],
) -> dict[str, Any]:
    """The whole answer as one object."""
    programme = largest(launches)
    groups = {
        f"{way}: {name}": figures(rows)
        for way, divided in grouped(scored, programme).items()
        if not (extra and way == "source")  # told apart already
        for name, rows in sorted(divided.items())
    }
    whole = figures(scored)
    return {
        **whole,
        "rows": len(launches),
        "scored": len(scored),
        "coverage": round(len(scored) / len(launches), 3) if launches else None,
        "groups": groups | extra,
        "not_planned": [
            {"case_id": launch.case_id, "model": launch.model, "reason": reason}
            for launch, reason in missing
        ],
    }


COLUMNS = (
    ("launches", "rows", ""),
    ("weights", "weights_mean_abs_pct", " %"),
    ("activation", "activation_mean_abs_pct", " %"),
    ("graphs", "graphs_mean_abs_pct", " %"),
    ("KV cache", "kv_mean_abs_pct", " %"),
    ("95th pct.", "kv_p95_abs_pct", " %"),
    ("small pools", "kv_small_mean_abs_gib", " GiB"),
    ("tokens", "tokens_or_concurrency_mean_abs_pct", " %"),
    ("optimistic", "kv_optimistic_over_3pct", "share"),
    ("outcome", "outcome_accuracy", "share"),
    ("in bands", "band90_coverage", "share"),
)


def table(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    """The score as rows of text, a header first; what was left out of the fit before the rest."""
    lines: list[tuple[str, ...]] = [("", *(name for name, _, _ in COLUMNS))]
    whole = {**answer, "rows": answer["scored"]}
    groups = sorted(answer["groups"].items(), key=lambda group: not group[0].startswith("("))
    for name, values in [("all", whole), *groups]:
        lines.append((name, *(_cell(values[key], unit) for _, key, unit in COLUMNS)))
    return lines


def _cell(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "share":
        return f"{100 * value:.0f} %"
    return f"{value:.2f}{unit}" if isinstance(value, float) else f"{value}{unit}"


def print_rows(scored: Iterable[Scored]) -> None:
    """Every launch, figure by figure: printed, predicted and band."""
    for row in scored:
        launch = row.launch
        release = launch.releases[0] if launch.stated else "any"
        print(f"{launch.case_id} {launch.model} {launch.rig} {release}: {launch.outcome}, "
              f"chance of refusal {row.predicted.chance_of_refusal:.2f}")  # fmt: skip
        for figure in (*FIGURES, "tokens_or_concurrency"):
            pair = row.pair(figure)
            if pair is not None:
                printed, told = pair
                mark = "" if inside(figure, pair) else "  outside"
                told_of = f"{printed:12.2f} {told.value:12.2f} [{told.low:.2f}-{told.high:.2f}]"
                print(f"    {figure:22} {told_of} {share_error(pair):+7.2f} %{mark}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--all", action="store_true", help="incomplete rows and forks too")
    parser.add_argument("--rows", action="store_true", help="print every launch")
    parser.add_argument("--markdown", action="store_true", help="only the table, as Markdown")
    parser.add_argument(
        "--leave-one-source-out",
        action="store_true",
        help="constants fitted without the source (or architecture) that is scored",
    )
    arguments = parser.parse_args()
    launches = [each for each in read_launches(arguments.file) if arguments.all or each.headline]
    extra: dict[str, Any] = {}
    if arguments.leave_one_source_out:
        scored, missing = score(launches, folds(launches))
        whole, _ = score(*programme_left_out(launches))
        programme = largest(launches)
        extra = {
            "(a) largest source left out whole": figures(whole),
            "(b) inside it by architecture": figures(
                [row for row in scored if row.launch.source_group == programme]
            ),
            "(c) all other sources": figures(
                [row for row in scored if row.launch.source_group != programme]
            ),
        }
    else:
        scored, missing = score(launches)
    answer = report(scored, missing, launches, extra)
    if arguments.json:
        print(json.dumps(answer))
        return
    lines = table(answer)
    if arguments.markdown:
        lines.insert(1, ("---",) * len(lines[0]))
        for line in lines:
            print(f"| {' | '.join(line)} |")
        return
    if arguments.rows:
        print_rows(scored)
        print()
    for name, *cells in lines:
        print(f"{name:36}" + "".join(f"{cell:>12}" for cell in cells))
    print(f"\n{answer['scored']} of {answer['rows']} launches planned; false starts: "
          f"{answer['false_starts']}; balanced accuracy {answer['outcome_balanced_accuracy']}; "
          f"pools inside their bands {answer['kv_band90_coverage']}")  # fmt: skip
    for launch, reason in missing:
        print(f"not planned: {launch.case_id} {launch.model}: {reason}")


if __name__ == "__main__":
    main()
