"""The longest context that settings serve for sure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Final

from model_cards.card import ANY_LENGTH
from planner.engine_config import EngineConfig
from planner.memory.kv_groups import request_blocks
from planner.memory.plan import MemoryPlan, Refused, plan_memory
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements

_GRAIN: Final = 1024  # contexts are given in whole multiples
_NO_LIMIT: Final = 2**20  # for models that have none
_TRIES: Final = 4  # a longer context has larger buffers, so that the first may be too long


def longest_context(
    memory: MemoryPlan, config: EngineConfig, requirements: Requirements
) -> MemoryPlan | None:
    """The plan of `config` with the longest context that as many requests as asked for may fill.

    `memory` is a plan of the same model that starts. None where nothing longer than its context
    does.
    """
    card, at_once = memory.card, requirements.workload.concurrency
    limit = _NO_LIMIT if card.max_model_len == ANY_LENGTH else card.max_model_len
    lengths = [*range(_GRAIN, limit, _GRAIN), limit]
    length = memory.config.max_model_len
    best: MemoryPlan | None = None
    for _ in range(_TRIES):
        try:
            plan = plan_memory(
                card, memory.rig, replace(config, max_model_len=length), vllm=memory.release
            )
        except Refused:
            break
        sure, in_flight = plan.kv_cache_low, plan.config.in_flight_tokens
        groups = sure.groups
        held = bisect_right(
            lengths,
            sure.num_blocks,
            key=lambda tokens: at_once * request_blocks(groups, tokens, in_flight),
        )
        longest = lengths[held - 1] if held else 0
        if longest >= length and plan.starts.answer is Answer.YES:
            best = plan
        if longest in (0, length):
            break
        length = longest
    return best
