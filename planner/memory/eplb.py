"""What expert load balancing keeps on every rank (vLLM's distributed/eplb/eplb_state.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from model_cards.card import Layer
from model_cards.modules import Experts
from planner.engine.eplb import ExpertBalancing
from planner.memory.weights import Layout, module_bytes

_MAX_COPIES: Final = 1024  # places that the table has for each expert
_INT32, _INT64 = 4, 8


def balancing_bytes(
    layers: Iterable[Layer], balancing: ExpertBalancing | None, layout: Layout
) -> int:
    """Tables of `layers`, and room for the experts of one layer while they move.

    For every MoE layer int64 tables from physical to logical experts and back, how many copies
    each has and its last load, and int32 loads of the running step and of those remembered.
    """
    if balancing is None:
        return 0
    routed = [m for layer in layers for m in layer.modules if isinstance(m, Experts)]
    if not routed:
        return 0
    tables = 0
    for experts in routed:
        logical, physical = experts.count, experts.count + balancing.num_redundant_experts
        tables += _INT64 * (physical + logical * (_MAX_COPIES + 2))
        tables += _INT32 * physical * (1 + balancing.window_size)
    return tables + module_bytes(routed[0], layout)
