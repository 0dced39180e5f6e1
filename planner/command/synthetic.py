"""Drafts that are accepted at a set rate, so as to time speculation by itself.

`"rejection_sample_method": "synthetic"` of `--speculative-config` (vllm/config/speculative.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from planner.errors import PlanError


def is_synthetic(given: Any) -> bool:
    """Whether the value of `--speculative-config` asks for it."""
    return isinstance(given, Mapping) and given.get("rejection_sample_method") == "synthetic"


def synthetic_rates(given: Mapping[str, Any]) -> tuple[float, ...]:
    """Of each position of a draft, the share of all drafts that are accepted up to there.

    Raises `PlanError` for what vLLM refuses.
    """
    rates = given.get("synthetic_acceptance_rates")
    length = given.get("synthetic_acceptance_length")
    tokens = given.get("num_speculative_tokens")
    if (rates is None) == (length is None):
        raise PlanError(
            "synthetic acceptance takes either synthetic_acceptance_rates or "
            "synthetic_acceptance_length"
        )
    if length is not None:
        return _of_length(length, tokens)
    if not isinstance(rates, list) or not all(_is_number(rate) for rate in rates):
        raise PlanError(f"synthetic_acceptance_rates is no list of numbers: {rates!r}")
    if isinstance(tokens, int) and len(rates) != tokens:
        raise PlanError(f"synthetic_acceptance_rates has {len(rates)} rates for {tokens} tokens")
    if any(not 0 <= rate <= 1 for rate in rates) or any(b > a for a, b in pairwise(rates)):
        raise PlanError("synthetic_acceptance_rates must be from 0 to 1 and never rise")
    return tuple(float(rate) for rate in rates)


def _of_length(length: Any, tokens: Any) -> tuple[float, ...]:
    """Whole tokens for certain, and the next by chance."""
    if not isinstance(tokens, int):
        raise PlanError("synthetic acceptance takes num_speculative_tokens, too")
    if not _is_number(length) or not 1 <= length <= tokens + 1:
        raise PlanError(f"synthetic_acceptance_length must be from 1 to {tokens + 1}: {length!r}")
    accepted = float(length) - 1
    whole = int(accepted)
    return tuple([1.0] * whole + [accepted - whole] + [0.0] * tokens)[:tokens]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
