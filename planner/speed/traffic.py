"""What one step of one rank moves and computes: bytes of weights and cache, operations."""

from __future__ import annotations

from dataclasses import dataclass

from model_cards.caches import Attention, AttentionKind, RecurrentState
from model_cards.card import ModelCard
from model_cards.modules import Bulk, Experts
from planner.engine.kv_cache_dtypes import cached_token_bytes
from planner.memory.kv_specs import state_bytes
from planner.memory.plan import MemoryPlan
from planner.memory.weights import RankWeights


@dataclass(frozen=True, slots=True)
class Traffic:
    """One decode step of a batch, on one rank."""

    weight_bytes: float
    kv_bytes: float  # of the KV cache, and of recurrent states
    flops: float


def decode_traffic(
    memory: MemoryPlan, batch: int, context: float, expert_exponent: float
) -> Traffic:
    """Bytes and operations of a decode step with `batch` requests of mean length `context`.

    All pipeline stages together: a token passes through each in turn.
    """
    card = memory.card
    weights = sum(
        step_weight_bytes(card, rank.parts, batch, expert_exponent) for rank in memory.ranks
    )
    kv = batch * sum(
        kv_bytes_read(attention, memory, context) for attention in card.attention_layers
    )
    ranks = memory.config.given.tensor_parallel_size
    kv += (
        batch
        * 2
        * sum(  # recurrent states are read and written again
            state_bytes(cache, ranks, memory.config.dtype_bytes)
            for cache in card.caches()
            if isinstance(cache, RecurrentState)
        )
    )
    return Traffic(weights, kv, 2 * card.active_parameters / ranks * batch)


def step_weight_bytes(
    card: ModelCard, parts: RankWeights, batch: int, expert_exponent: float
) -> float:
    """Weights of a stage that a step reads: all but the embedding table and idle experts."""
    head = parts.lm_head or (parts.embedding if card.tied else 0)
    touched = experts_touched(card, batch, expert_exponent)
    bulk = _bulk_share(card, batch, expert_exponent)
    return parts.attention + parts.mlp * bulk + parts.norms + head + parts.experts * touched


def experts_touched(card: ModelCard, batch: int, exponent: float) -> float:
    """Share of the routed experts that a batch visits, drawn at random: 1 - (1 - k/E)^(c B).

    `exponent` c is below 1 because tokens of one batch choose alike.
    """
    for layer in card.layers:
        for module in layer.modules:
            if isinstance(module, Experts):
                idle = 1 - module.active / module.count
                return max(module.active / module.count, 1.0 - float(idle ** (exponent * batch)))
    return 1.0


def _bulk_share(card: ModelCard, batch: int, exponent: float) -> float:
    """Share of an unmodelled model's weights that a batch reads."""
    for layer in card.layers:
        for module in layer.modules:
            if isinstance(module, Bulk):
                active = module.active / module.elements
                return max(active, 1.0 - float((1 - active) ** (exponent * batch)))
    return 1.0


def kv_bytes_read(attention: Attention, memory: MemoryPlan, context: float) -> float:
    """Cache bytes one request makes a layer read in one step, on one rank."""
    config = memory.config
    per_head = float(cached_token_bytes(attention, config.kv_cache_dtype, config.dtype_bytes))
    tokens = context if attention.window is None else min(context, attention.window)
    tokens /= attention.compression
    if attention.index_topk is not None:
        tokens = min(tokens, attention.index_topk)
    if attention.kind is AttentionKind.MLA:
        return tokens * per_head
    ranks = min(config.given.tensor_parallel_size, attention.num_kv_heads)
    return tokens * per_head * attention.num_kv_heads / ranks
