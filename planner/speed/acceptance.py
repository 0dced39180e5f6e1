"""How many drafted tokens the target accepts.

vLLM verifies chains: a drafted token counts only if all before it were accepted. Two numbers
describe a draft on a kind of text: how often its first token is accepted, and how that rate decays
from token to token. The first token is drafted from the target's own hidden states, later ones
from the draft's guesses: most drafts lose a share at that hand-over and little after it. Numbers
and their sources are in data/acceptance.json (tools/fit_acceptance.py).
"""

from __future__ import annotations

import json
from functools import cache
from math import log2
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.known_drafts import base_name
from planner.errors import PlanError
from planner.quantity import Basis

# What a request is about; drafts guess some kinds of text better than others.
TASKS: Final = ("chat", "code", "math", "reasoning", "rag", "summarization", "edit")
_TASK_OF_USE_CASE: Final = {"agent": "code"}
ANY_TASK: Final = "any"  # where the kind of text is not known
_BISECTIONS: Final = 40


class Acceptance(Struct, frozen=True):
    """Rates at which drafted tokens are accepted, each given that all before it were.

    The first is `first`, the i-th `first` x `handover` x `decay`^(i - 2), never above 1.
    """

    first: float
    decay: float = 1.0
    handover: float = 1.0

    def rates(self, tokens: int) -> list[float]:
        """The rate at each of so many positions."""
        later = (self.first * self.handover * self.decay**place for place in range(tokens - 1))
        return [self.first, *(min(1.0, rate) for rate in later)][:tokens]

    def survival(self, tokens: int) -> list[float]:
        """Share of steps in which the tokens up to each position are all accepted.

        What vLLM counts as `spec_decode_num_accepted_tokens_per_pos` over `num_drafts`.
        """
        shares, left = [], 1.0
        for rate in self.rates(tokens):
            left *= rate
            shares.append(left)
        return shares

    def length(self, tokens: Any) -> Any:
        """Acceptance length: tokens that a step emits, the target's own (bonus) included.

        `tokens` drafted, a whole number or an array of them.
        """
        if isinstance(tokens, int):
            return 1.0 + sum(self.survival(tokens))
        import numpy as np

        longest = int(np.max(tokens, initial=0))
        by_tokens = np.concatenate(([1.0], 1.0 + np.cumsum(self.survival(longest))))
        return by_tokens[tokens]


class Curve(Struct, frozen=True):
    """How the rates of a kind of draft fall, whatever its first one.

    Drafts that guess very well, or hardly ever, fall less from token to token than those between:
    the decay is `decay` + `curvature` x (first - `middle`)^2.
    """

    handover: float
    decay: float
    curvature: float = 0.0
    middle: float = 0.75

    def from_first(self, first: float) -> Acceptance:
        """The rates that begin with this one."""
        decay = self.decay + self.curvature * (first - self.middle) ** 2
        return Acceptance(first, decay, self.handover)

    def from_length(self, length: float, tokens: int) -> Acceptance:
        """The rates behind an acceptance length that was measured with so many drafted tokens.

        Raises `PlanError` for a length that no such draft can have.
        """
        if not 1 <= length <= tokens + 1:
            raise PlanError(
                f"an acceptance length of {length:g} with {tokens} drafted tokens cannot be: it "
                f"lies between 1 and {tokens + 1}, the target's own token included"
            )
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            first = (low + high) / 2
            if self.from_first(first).length(tokens) < length:
                low = first
            else:
                high = first
        return self.from_first((low + high) / 2)


class ExpectedAcceptance(Struct, frozen=True):
    """What to expect of a draft, with nine of ten drafts of its kind between `low` and `high`."""

    likely: Acceptance
    low: Acceptance
    high: Acceptance
    basis: Basis
    source: str


def iid_length(rate: float, tokens: int) -> float:
    """The textbook's acceptance length, where every token is accepted at the same rate.

    (1 - a^(k+1)) / (1 - a): the tokens a step *emits*, the bonus token included; accepted drafts
    are one fewer (Leviathan et al. 2022, equation 1). Taken from a measured rate it promises too
    much at larger k, because rates decay.
    """
    return float(tokens + 1) if rate == 1 else (1 - rate ** (tokens + 1)) / (1 - rate)


def task_of(use_case: str) -> str:
    """The kind of text that requests of a use case ask for."""
    task = _TASK_OF_USE_CASE.get(use_case, use_case)
    return task if task in TASKS else "chat"


def check_task(task: str) -> str:
    """The task; raises `PlanError` for one that is not known."""
    if task not in (*TASKS, ANY_TASK):
        raise PlanError(f"Unknown task {task!r}; one of {', '.join(TASKS)}")
    return task


def curve_of(method: str) -> Curve:
    """How the rates of a method fall from token to token."""
    curves = acceptance_data()["curves"]
    return Curve(**curves.get(method, curves["default"]))


def expected_acceptance(
    method: str,
    task: str,
    *,
    temperature: float = 0.0,
    parameters: float = 0.0,
    draft: str | None = None,
    target: str | None = None,
) -> ExpectedAcceptance:
    """What a method's drafts are accepted on a kind of text.

    `draft` and `target` are Hub ids: where that draft was measured, its own rates are taken.
    `parameters` of the target say how much sampling at a `temperature` costs: small models write
    less predictable text.
    """
    data = acceptance_data()
    measured = _measured(data, method, check_task(task), draft, target)
    if measured is not None:
        first, decay, handover, source = measured
        band = data["measured_band"]
        likely = Acceptance(first, decay, handover)
        low, high = (replace(likely, first=_rate(first + band * side)) for side in (-1, 1))
        basis = Basis.CALIBRATED
    else:
        by_task = data["methods"].get(method) or data["methods"]["draft_model"]
        entry = by_task["chat" if task == ANY_TASK else task]
        curve = curve_of(method)
        low, likely, high = (curve.from_first(entry[end]) for end in ("low", "likely", "high"))
        basis = Basis.CALIBRATED if entry["drafts"] >= data["enough_drafts"] else Basis.ESTIMATED
        source = f"{entry['drafts']} drafts" if entry["drafts"] else "no measured draft"
    kept = _kept_when_sampling(data["sampling"], temperature, parameters)
    likely, low, high = (replace(each, first=each.first * kept) for each in (likely, low, high))
    return ExpectedAcceptance(likely, low, high, basis, source)


def _rate(value: float) -> float:
    return min(0.99, max(0.01, value))


def _measured(
    data: dict[str, Any], method: str, task: str, draft: str | None, target: str | None
) -> tuple[float, float, float, str] | None:
    """First rate, decay, hand-over and source of a draft that was measured on such text."""
    names = [draft.lower()] if draft else []
    names += [draft_in(target, method)] if target and not draft else []
    for name in names:
        by_task = data["drafts"].get(name, {}).get("tasks", {})
        rates = by_task.get(task) or by_task.get(ANY_TASK)
        if rates is None and task == ANY_TASK and by_task:
            rates = [sum(each) / len(by_task) for each in zip(*by_task.values(), strict=True)]
        if rates is not None:
            first, decay, handover = rates
            return first, decay, handover, data["drafts"][name]["source"]
    return None


def draft_in(target: str, method: str) -> str:
    """The name under which a draft that comes with its target is listed, in whatever format."""
    return f"{base_name(target)}|{method}"


def _kept_when_sampling(sampling: dict[str, Any], temperature: float, parameters: float) -> float:
    """Share of the first rate that is left at a temperature: between two sizes of target, by log2.

    Measured at temperature 1 only; below `full_from` in proportion.
    """
    small, large = sampling["small"], sampling["large"]
    size = min(max(parameters, small["parameters"]), large["parameters"])
    place = log2(size / small["parameters"]) / log2(large["parameters"] / small["parameters"])
    lost = 1 - (small["kept"] + place * (large["kept"] - small["kept"]))
    return float(1 - lost * min(1.0, temperature / sampling["full_from"]))


@cache
def acceptance_data() -> dict[str, Any]:
    """The rates as fitted."""
    path = Path(__file__).parent / "data" / "acceptance.json"
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table
