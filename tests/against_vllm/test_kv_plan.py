"""Random models and settings: vplan's KV cache, and what vLLM's own code plans for them.

`VPLAN_CASES` is the number of cases, which are then drawn anew in every run.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from geometries import Launch, launches
from hypothesis import HealthCheck, given, settings

from planner.engine.releases import find_release
from planner.errors import PlanError

pytestmark = pytest.mark.vllm

_CASES = os.environ.get("VPLAN_CASES")


def test_vplan_plans_for_the_installed_release(installed: str) -> None:
    assert find_release().name == installed


@settings(
    max_examples=int(_CASES or 1000),
    derandomize=_CASES is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(launches())
def test_the_kv_cache_is_what_vllm_plans(launch: Launch) -> None:
    assert differences(launch) == {}


def differences(launch: Launch) -> dict[str, tuple[Any, Any]]:
    """What vLLM and vplan say of a launch, where they differ."""
    import ours
    import theirs

    answer = theirs.answer(launch)
    try:
        mine = ours.plan(launch, find_release())
    except PlanError as error:
        return {} if answer.refusal is not None else {"refusal": (None, str(error))}
    pairs: dict[str, tuple[Any, Any]] = {"starts": (answer.refusal is None, mine.starts)}
    if answer.groups:
        pairs |= {
            "groups": (
                [(group.caches, group.block_size) for group in answer.groups],
                [(group.layers, group.block_size) for group in mine.plan.groups],
            ),
            "bytes_per_block": (answer.bytes_per_block, mine.plan.bytes_per_block),
            "longest_len": (answer.longest_len, mine.plan.longest_len),
            "in_flight_tokens": (answer.in_flight_tokens, mine.in_flight_tokens),
        }
    if answer.refusal is None:
        pairs |= {
            name: (getattr(answer, name), getattr(mine.plan, name))
            for name in ("max_model_len", "num_blocks", "tokens", "concurrency")
        }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
