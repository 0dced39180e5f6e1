"""What a step asks of one rank: bytes of weights and cache, operations, messages.

Nothing here depends on how fast anything is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from model_cards.caches import Attention, AttentionKind, RecurrentState
from model_cards.card import ModelCard, count_same
from model_cards.modules import Bulk, Experts
from planner.engine.kv_cache_dtypes import cached_token_bytes
from planner.memory.kv_specs import state_bytes
from planner.memory.plan import MemoryPlan
from planner.memory.weights import RankWeights
from planner.speed.amounts import Amount, larger, smaller


@dataclass(frozen=True, slots=True)
class DrawnWeights:
    """Weights of which every token picks a share: routed experts, or a model known by totals."""

    bytes: float  # on this rank
    active: float  # share that one token picks

    def touched(self, tokens: Amount, exponent: float) -> Amount:
        """Share that a batch reads, drawn at random: 1 - (1 - active)^(c tokens).

        `exponent` c is below 1 because tokens of one batch choose alike.
        """
        drawn: Amount = 1.0 - (1.0 - self.active) ** (exponent * tokens)
        return larger(self.active, drawn)


@dataclass(frozen=True, slots=True)
class CacheReads:
    """Layers of attention that are alike: what one request makes a rank read in a step."""

    layers: int
    token_bytes: float  # of one layer, for a cached vector
    most_tokens: float | None  # a window; None: all of the context
    compression: int  # tokens that one cached vector stands for
    most_vectors: float | None  # what sparse attention picks; None: all

    def bytes(self, context: Amount) -> Amount:
        """Cache bytes read for one request of that length."""
        tokens = context if self.most_tokens is None else smaller(context, self.most_tokens)
        vectors = tokens / self.compression
        if self.most_vectors is not None:
            vectors = smaller(vectors, self.most_vectors)
        return self.layers * self.token_bytes * vectors


@dataclass(frozen=True, slots=True)
class StepDemand:
    """A step on one rank, all pipeline stages together: a token passes through each in turn."""

    always_read: float  # bytes of weights that every step reads
    drawn: tuple[DrawnWeights, ...]
    caches: tuple[CacheReads, ...]
    state_bytes: float  # recurrent states of one request, read and written again
    flops_per_token: float

    @classmethod
    def of(cls, memory: MemoryPlan) -> StepDemand:
        """The demand of a planned launch."""
        card, config = memory.card, memory.config
        ranks = config.given.tensor_parallel_size
        parts = [rank.parts for rank in memory.ranks]
        states = (cache for cache in card.caches() if isinstance(cache, RecurrentState))
        held = sum(state_bytes(state, ranks, config.dtype_bytes) for state in states)
        experts, bulk = _active_experts(card), _active_bulk(card)
        drawn = []
        if experts is not None:
            drawn.append(DrawnWeights(sum(part.experts for part in parts), experts))
        if bulk is not None:
            drawn.append(DrawnWeights(sum(part.mlp for part in parts), bulk))
        return cls(
            always_read=float(sum(_always_read(card, part, bulk is not None) for part in parts)),
            drawn=tuple(drawn),
            caches=tuple(cache_reads(card.attention_layers, memory)),
            state_bytes=2.0 * held,
            flops_per_token=2.0 * card.active_parameters / ranks,
        )

    def weight_bytes(self, tokens: Amount, exponent: float) -> Amount:
        """Bytes of weights that a step of so many tokens reads."""
        total: Amount = self.always_read
        for drawn in self.drawn:
            total = total + drawn.bytes * drawn.touched(tokens, exponent)
        return total

    def cache_bytes(self, batch: Amount, context: Amount) -> Amount:
        """Bytes of KV cache and states that `batch` requests of mean length `context` touch."""
        of_one: Amount = self.state_bytes
        for reads in self.caches:
            of_one = of_one + reads.bytes(context)
        return batch * of_one


def _always_read(card: ModelCard, parts: RankWeights, drawn_bulk: bool) -> int:
    """Weights of a stage that every step reads: all but the embedding table and what is drawn."""
    head = parts.lm_head or (parts.embedding if card.tied else 0)
    return parts.attention + (0 if drawn_bulk else parts.mlp) + parts.norms + head


def _active_experts(card: ModelCard) -> float | None:
    """Share of the routed experts that one token visits; None without any."""
    for layer, _ in count_same(card.layers):
        for module in layer.modules:
            if isinstance(module, Experts):
                return module.active / module.count
    return None


def _active_bulk(card: ModelCard) -> float | None:
    """Share of an unmodelled model's weights that one token meets; None for others."""
    for layer, _ in count_same(card.layers):
        for module in layer.modules:
            if isinstance(module, Bulk):
                return module.active / module.elements
    return None


def cache_reads(attention_layers: Iterable[Attention], memory: MemoryPlan) -> Iterator[CacheReads]:
    """What attention layers read in a plan, those that are alike together."""
    config = memory.config
    for attention, layers in Counter(attention_layers).items():
        per_head = float(cached_token_bytes(attention, config.kv_cache_dtype, config.dtype_bytes))
        yield CacheReads(
            layers,
            per_head * _heads_read(attention, config.given.tensor_parallel_size),
            attention.window,
            attention.compression,
            attention.index_topk,
        )


def _heads_read(attention: Attention, ranks: int) -> float:
    """KV heads of a rank; they are replicated where ranks outnumber them."""
    if attention.kind is AttentionKind.MLA:
        return 1.0
    return attention.num_kv_heads / min(ranks, attention.num_kv_heads)
