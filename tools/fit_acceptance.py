"""Fit what drafts are accepted to published measurements.

    python tools/fit_acceptance.py ROWS.jsonl ...

Writes planner/speed/data/acceptance.json. Curves: the hand-over and decay that extrapolate best
from the smallest number of drafted tokens of every series to its others. Methods: for every kind
of text the median, and the 10th and 90th percentile, of the first rates of the drafts measured on
it. Drafts: the rates of each that was measured. Where nobody measured, a judgement stands, with
its own wide band.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from math import log, sqrt
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from speculation_rows import Row, read_rows, series_of  # noqa: E402

from planner.speed.acceptance import TASKS, Acceptance, Curve, draft_in  # noqa: E402

OUTPUT: Final = ROOT / "planner" / "speed" / "data" / "acceptance.json"
ENOUGH: Final = 4  # drafts from which on a method's rate counts as calibrated
# Rates nobody measured: likely first rates by kind of text. From speeds of PARD (best k, A100 and
# H20), one reference length of a draft model, counts of matched n-grams; the rest is judgement.
_JUDGED: Final[dict[str, dict[str, float]]] = {
    "eagle": {"chat": 0.68, "code": 0.73, "math": 0.73},
    "peagle": {"chat": 0.795, "code": 0.83, "math": 0.83},
    "mtp": {"chat": 0.80, "code": 0.88, "math": 0.88, "reasoning": 0.85, "rag": 0.82,
            "summarization": 0.82, "edit": 0.90},
    "draft_model": {"chat": 0.70, "code": 0.79, "math": 0.79},
    "pard": {"chat": 0.77, "code": 0.955, "math": 0.945},
    "ngram": {"chat": 0.24, "code": 0.36, "math": 0.35, "reasoning": 0.35, "rag": 0.60,
              "summarization": 0.60, "edit": 0.70},
    "suffix": {"chat": 0.22, "code": 0.36, "math": 0.35, "reasoning": 0.35, "rag": 0.60,
               "summarization": 0.60, "edit": 0.70},
    "medusa": {"chat": 0.60, "code": 0.65, "math": 0.65},
}  # fmt: skip
_JUDGED_BAND: Final = (0.78, 1.16)  # 10th and 90th percentile as shares of a judgement
_MATCHED_BAND: Final = (0.35, 1.5)  # the same of text that is there already, or is not
_SYNTHETIC: Final = ("random/synthetic", "easy test prompts, sampled")
_UNTRAINED: Final = ("toy",)  # drafts that were trained to show how, not to be used
# Each match of an n-gram makes the next more likely. The rates of positions as counted by vLLM on
# edits (.81, .914, .946, .971, .971) and on users' traffic (.543, .657, .739).
_FOR_A_FAMILY: Final = ("draft_model", "pard")
# First rates that published batch sweeps imply at small batches, of heads that are not named:
# EAGLE-1 on Llama-3.1-8B, arXiv:2503.01840v3 Tables 3 and 5.
_FROM_SPEEDS: Final = {("eagle", "chat"): (0.56, 0.47)}
_MATCHING: Final = ("ngram", "suffix")
_SAMPLING: Final = {
    "full_from": 0.7,
    "small": {"parameters": 14e9, "kept": 0.90},
    "large": {"parameters": 70e9, "kept": 0.97},
    "source": "acceptance lengths at temperature 0 and 1 of EAGLE-3, arXiv:2503.01840v3 Table 1",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, nargs="+", help="measurements, JSON lines")
    rows = [row for path in parser.parse_args().rows for row in read_rows(path)]
    rows = [row for row in rows if not any(word in row.named for word in _UNTRAINED)]
    curves = fit_curves(rows)
    drafts = fit_drafts(rows, curves)
    table = {
        "note": "Rates at which drafted tokens are accepted; planner/speed/acceptance.py says how "
        "they are read, tools/fit_acceptance.py how they were fitted",
        "source": "sgl-project/SpecForge spec_bundle@a6b6b023, arXiv:2607.05147 (DSpark), "
        "vllm-project/vllm#20780 #19254 #24344, SemiAnalysisAI/InferenceX golden_al_distribution"
        "@843c625, vllm-project.github.io _posts@c3a01c4, vLLM 0.33.0 tests/v1/spec_decode, model "
        "cards of RedHatAI and nebius",
        "curves": {name: rounded(vars_of(curve)) for name, curve in curves.items()},
        "enough_drafts": ENOUGH,
        "methods": fit_methods(drafts),
        "measured_band": 0.05,
        "extrapolation_band": 0.03,
        "drafts": listed(drafts),
        "sampling": _SAMPLING,
    }
    OUTPUT.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    print(f"{len(rows)} rows, {len(drafts)} drafts and kinds of text: {OUTPUT}")


def fit_curves(rows: Sequence[Row]) -> dict[str, Curve]:
    """Curves by method; `default` is that of what drafts on from the target's hidden states."""
    series = [s for s in series_of(rows) if not _falls_at_once(s)]
    sequential = [s for s in series if _method(s) not in ("eagle", *_MATCHING)]
    default = best_curve(
        sequential, handovers=steps(0.84, 0.98, 8), decays=steps(0.95, 1.0, 11),
        curvatures=steps(0.0, 1.0, 11),
    )  # fmt: skip
    first = [s for s in series if _method(s) == "eagle"]
    eagle = best_curve(first, handovers=[default.handover], decays=steps(0.7, 1.0, 61))
    matching = [row for row in rows if row.method in _MATCHING and row.per_position]
    return {"default": default, "eagle": eagle, "ngram": _rising(matching),
            "suffix": _rising(matching)}  # fmt: skip


def _falls_at_once(series: dict[int, Row]) -> bool:
    """Whether longer drafts bring next to nothing: a head that was trained for one token."""
    longest = series[max(series)].length
    third = series.get(3)
    assert longest is not None
    return third is not None and third.length is not None and max(series) == 8 and (
        longest < 1.06 * third.length
    )  # fmt: skip


def _method(series: dict[int, Row]) -> str | None:
    return next(iter(series.values())).method


def best_curve(
    series: Sequence[dict[int, Row]],
    handovers: Sequence[float],
    decays: Sequence[float],
    curvatures: Sequence[float] = (0.0,),
) -> Curve:
    """The curve of a grid that extrapolates best."""
    grid = product(handovers, decays, curvatures)
    return min((Curve(*point) for point in grid), key=lambda curve: _loss(curve, series))


def _loss(curve: Curve, series: Iterable[dict[int, Row]]) -> float:
    """Mean error of extrapolation, small ones counted less."""
    errors = [error for each in series for error in extrapolated(curve, each)]
    return sum(sqrt(error**2 + 0.01**2) for error in errors) / len(errors)


def extrapolated(curve: Curve, series: dict[int, Row]) -> list[float]:
    """Logarithms of predicted over measured length, at all but the smallest number of tokens."""
    smallest, *others = sorted(series)
    rates = curve.from_length(_length(series[smallest]), smallest)
    return [log(rates.length(tokens) / _length(series[tokens])) for tokens in others]


def _length(row: Row) -> float:
    assert row.length is not None
    return row.length


def _rising(rows: Sequence[Row]) -> Curve:
    """From the rates at each position, counted."""
    rates = [_conditional(row.per_position) for row in rows]
    handover = median(each[1] / each[0] for each in rates)
    decay = median(after / before for each in rates for before, after in _pairs(each[1:]))
    return Curve(handover, decay)


def _conditional(survival: Sequence[float]) -> list[float]:
    return [after / before for before, after in _pairs((1.0, *survival))]


def _pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(pairwise(values))


class Measured(Struct, frozen=True):
    """The rates of a draft on a kind of text."""

    rates: Acceptance
    longest: int  # drafted tokens at which it was measured
    source: str


Drafts = dict[tuple[str, str, str], Measured]  # by method, draft and kind of text


def fit_drafts(rows: Sequence[Row], curves: dict[str, Curve]) -> Drafts:
    """The rates of every draft on every kind of text that it was measured on."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        measured = row.length is not None and row.tokens is not None
        if not measured or row.method in (None, *_MATCHING) or row.text in _SYNTHETIC:
            continue
        assert row.method is not None
        if row.chain or row.engine.startswith("vLLM"):
            key = (row.method, _name(row), row.task or "any", row.text)
            groups.setdefault(key, []).append(row)
    texts: dict[tuple[str, str, str], list[Measured]] = {}
    for (method, name, task, _), group in groups.items():
        curve = curves.get(method, curves["default"])
        longest = max(row.tokens or 0 for row in group)
        fitted = Measured(_rates(group, curve), longest, group[0].source)
        texts.setdefault((method, name, task), []).append(fitted)
    return {key: _middle(fitted) for key, fitted in texts.items()}


def _name(row: Row) -> str:
    """A draft with a checkpoint of its own by that, others by the model they come with."""
    own = row.draft if row.draft and "/" in row.draft else None
    return own.lower() if own else draft_in(row.target.split(" ")[0], row.method or "")


def _rates(group: Sequence[Row], curve: Curve) -> Acceptance:
    """Rates of one series: two numbers where it is long enough to show them, else the first."""
    by_tokens = {
        tokens: median(_length(row) for row in group if row.tokens == tokens)
        for tokens in {row.tokens or 0 for row in group}
    }
    if len(by_tokens) < 3:
        tokens = min(by_tokens)
        return curve.from_length(by_tokens[tokens], tokens)

    def error(rates: Acceptance) -> float:
        return sum(log(rates.length(k) / length) ** 2 for k, length in by_tokens.items())

    first = curve.from_length(by_tokens[min(by_tokens)], min(by_tokens)).first
    return _descend(error, first, curve.handover)


def _descend(error: Callable[[Acceptance], float], first: float, handover: float) -> Acceptance:
    """First rate and decay by a grid that closes in."""
    decay, width = 0.97, 0.16
    for _ in range(7):
        firsts = [min(1.0, value) for value in steps(first - width, first + width, 9)]
        decays = steps(decay - width, decay + width, 9)
        best = min((Acceptance(a, r, handover) for a in firsts for r in decays), key=error)
        first, decay, width = best.first, best.decay, width / 2.5
    return Acceptance(first, decay, handover)


def _middle(fitted: list[Measured]) -> Measured:
    """Of several texts of one kind, the one in the middle."""
    ordered = sorted(fitted, key=lambda each: each.rates.first)
    middle = ordered[len(ordered) // 2]
    first = median(each.rates.first for each in ordered)
    return replace(middle, rates=replace(middle.rates, first=first))


def fit_methods(drafts: Drafts) -> dict[str, dict[str, dict[str, float]]]:
    """First rates of each method by kind of text: percentiles of its drafts, else judgements."""
    firsts: dict[tuple[str, str], list[float]] = {}
    for (method, _, task), found in drafts.items():
        firsts.setdefault((method, task), []).append(found.rates.first)
    for key, implied in _FROM_SPEEDS.items():
        firsts.setdefault(key, []).extend(implied)
    reference = {task: median(firsts["eagle3", task]) for task in TASKS if task != "edit"}
    reference["edit"] = reference["code"]
    methods = sorted({method for method, _ in firsts} | set(_JUDGED))
    return {
        method: {
            task: _entry(
                firsts.get((method, task), []),
                _judged(method, task, reference, firsts),
                _MATCHED_BAND if method in _MATCHING else _JUDGED_BAND,
            )
            for task in TASKS
        }
        for method in methods
    }


def _judged(
    method: str, task: str, reference: dict[str, float], firsts: dict[tuple[str, str], list[float]]
) -> float:
    """Where nobody measured: a judgement, else as EAGLE-3 differs between chat and that text."""
    own = _JUDGED.get(method, {})
    if task in own:
        return own[task]
    chat = own.get("chat") or median(firsts.get((method, "chat"), [reference["chat"]]))
    odds = chat / (1 - chat) * _odds(reference[task]) / _odds(reference["chat"])
    return odds / (1 + odds)


def _odds(rate: float) -> float:
    return rate / (1 - rate)


def _entry(firsts: list[float], judged: float, band: tuple[float, float]) -> dict[str, float]:
    if len(firsts) < ENOUGH:
        likely = median([judged, *firsts]) if firsts else judged
        low, high = (likely * share for share in band)
        low, high = min([low, *firsts]), max([high, *firsts])
    else:
        likely = median(firsts)
        tenths = quantiles(firsts, n=10, method="inclusive")
        low, high = tenths[0], tenths[-1]
    return {"low": round(low, 3), "likely": round(likely, 3), "high": round(min(0.97, high), 3),
            "drafts": len(firsts)}  # fmt: skip


def listed(drafts: Drafts) -> dict[str, Any]:
    """Drafts by name, with rates by kind of text."""
    table: dict[str, Any] = {}
    for (method, name, task), found in sorted(drafts.items(), key=lambda each: each[0]):
        if method in _FOR_A_FAMILY:  # measured with one target of many
            continue
        entry = table.setdefault(name, {"source": found.source, "longest": 0, "tasks": {}})
        entry["longest"] = max(entry["longest"], found.longest)
        numbers = (found.rates.first, found.rates.decay, found.rates.handover)
        entry["tasks"][task] = [round(number, 3) for number in numbers]
    return table


def steps(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * index / (count - 1) for index in range(count)]


def vars_of(curve: Curve) -> dict[str, float]:
    return {name: getattr(curve, name) for name in ("handover", "decay", "curvature", "middle")}


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


if __name__ == "__main__":
    main()
