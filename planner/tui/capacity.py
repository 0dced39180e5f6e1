"""Capacity: how many requests fit at once, for each context."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from planner.memory.sweep import sweep_memory
from planner.memory.verdict import Answer
from planner.quantity import Basis, Quantity
from planner.tui.outcome import Outcome

_SHORTEST: Final = 1024
_MOST_ROWS: Final = 16


class Room(Struct, frozen=True):
    """How many requests of `context` tokens the cache holds at once, if it starts at all."""

    context: int
    requests: Quantity
    answer: Answer


def capacity(outcome: Outcome) -> tuple[Room, ...]:
    """The sweep over contexts, up to the model's own. Raises `PlanError` where there is none."""
    inputs, config = outcome.inputs, outcome.settings.config
    contexts = _contexts(outcome)
    swept = sweep_memory(
        inputs.card,
        inputs.rig,
        replace(config, max_model_len=None),
        max_model_len=contexts,
        max_num_seqs=(config.max_num_seqs,),
        max_num_batched_tokens=(config.max_num_batched_tokens,),
        kv_cache_dtype=(config.kv_cache_dtype,),
        gpu_memory_utilization=(config.gpu_memory_utilization,),
        draft=inputs.draft,
        vllm=inputs.release,
    )
    basis = Basis.ESTIMATED
    if outcome.memory is not None:
        basis = outcome.memory.max_concurrency.basis
    rows = zip(
        contexts,
        swept.max_concurrency.ravel().tolist(),
        swept.max_concurrency_low.ravel().tolist(),
        swept.max_concurrency_high.ravel().tolist(),
        swept.fits_perhaps.ravel().tolist(),
        swept.fits_surely.ravel().tolist(),
        strict=True,
    )
    return tuple(
        Room(
            length,
            Quantity(held, low, high, basis),
            Answer.YES if surely else Answer.RISKY if perhaps else Answer.NO,
        )
        for length, held, low, high, perhaps, surely in rows
    )


def _contexts(outcome: Outcome) -> list[int]:
    """Powers of two, the context there is now and the longest."""
    most = outcome.inputs.card.max_model_len
    powers = [2**exponent for exponent in range(24) if _SHORTEST <= 2**exponent < most]
    now = [] if outcome.memory is None else [outcome.memory.config.max_model_len]
    return sorted({*powers[-_MOST_ROWS:], *now, most})
