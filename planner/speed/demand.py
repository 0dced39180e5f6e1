"""What a step asks of one rank: bytes of weights and cache, operations, layers.

Nothing here depends on how fast anything is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from model_cards.caches import Attention, AttentionKind, RecurrentState
from model_cards.card import ModelCard
from model_cards.modules import Bulk, Experts, Linear, Shard
from planner.engine.kv_cache_dtypes import cached_token_bytes
from planner.memory.kv_specs import state_bytes
from planner.memory.plan import MemoryPlan
from planner.memory.weights import part_of
from planner.speed.amounts import Amount, larger, smaller

# Prompts run on keys and values of their own (192 + 128 features a head, DeepSeek's), not on the
# latent vectors (576 + 512) that decoding reads.
_MLA_PROMPT_SHARE: Final = (192 + 128) / (576 + 512)
_LATENT: Final = frozenset({AttentionKind.MLA, AttentionKind.SLIDING_MLA, AttentionKind.INDEXER})


class DrawnWeights(Struct, frozen=True):
    """Weights of which every token picks a share: routed experts, or a model known by totals."""

    bytes: float  # on this rank
    active: float  # share that one token picks

    def touched(self, tokens: Amount, exponent: float) -> Amount:
        """Share that a batch reads, drawn at random: 1 - (1 - active)^(c tokens).

        `exponent` c is below 1 because tokens of one batch choose alike.
        """
        drawn: Amount = 1.0 - (1.0 - self.active) ** (exponent * tokens)
        return larger(self.active, drawn)


class Matrices(Struct, frozen=True):
    """The matrices of one part of the model on a rank, all pipeline stages together."""

    part: str  # "attention", "mlp", "experts", "head"
    kind: str  # weight format
    bytes: float  # that every step reads
    drawn: DrawnWeights | None
    flops_per_token: float

    def read(self, tokens: Amount, exponent: float) -> Amount:
        """Bytes of weights that a step of so many tokens reads."""
        if self.drawn is None:
            return self.bytes
        return self.bytes + self.drawn.bytes * self.drawn.touched(tokens, exponent)


class CacheReads(Struct, frozen=True):
    """Layers of attention that are alike: what one request makes a rank read in a step."""

    layers: int
    token_bytes: float  # of one layer, for a cached vector
    most_tokens: float | None  # a window; None: all of the context
    compression: float  # tokens that one cached vector stands for
    most_vectors: float | None  # what sparse attention picks; None: all
    flops: float  # of a query token and a cached vector, in one layer
    prompt_flops: float  # the same while a prompt is processed

    def vectors(self, context: Amount) -> Amount:
        """Cached vectors that a layer reads for one request of that length."""
        tokens = context if self.most_tokens is None else smaller(context, self.most_tokens)
        vectors = tokens / self.compression
        if self.most_vectors is not None:
            vectors = smaller(vectors, self.most_vectors)
        return vectors

    def bytes(self, context: Amount) -> Amount:
        """Cache bytes read for one request of that length."""
        return self.layers * self.token_bytes * self.vectors(context)


class StepDemand(Struct, frozen=True):
    """A step on one rank, all pipeline stages together: a token passes through each in turn."""

    matrices: tuple[Matrices, ...]
    caches: tuple[CacheReads, ...]
    state_bytes: float  # recurrent states of one request, read and written again
    replicas: int  # data-parallel replicas that share the experts
    layers: int
    expert_layers: int
    latent_layers: int
    recurrent_layers: int
    offloaded: float  # share of the weights that is in host memory

    @classmethod
    def of(cls, memory: MemoryPlan) -> StepDemand:
        """The demand of a planned launch."""
        card, config = memory.card, memory.config
        ranks = config.given.tensor_parallel_size
        states = [cache for cache in card.caches() if isinstance(cache, RecurrentState)]
        held = sum(
            count * state_bytes(state, ranks, config.dtype_bytes)
            for state, count in Counter(states).items()
        )
        parts = [rank.parts for rank in memory.ranks]
        in_host = sum(each.offloaded for each in parts)
        matrices = tuple(_matrices(memory))
        whole = sum(each.bytes + (each.drawn.bytes if each.drawn else 0) for each in matrices)
        latent = (a.kind in _LATENT for a in card.attention_layers)
        return cls(
            matrices=matrices,
            caches=tuple(cache_reads(card.attention_layers, memory)),
            state_bytes=2.0 * held,
            replicas=config.given.data_parallel_size if card.is_moe else 1,
            layers=card.num_layers,
            expert_layers=_expert_layers(card),
            latent_layers=sum(latent),
            recurrent_layers=len(states),
            offloaded=min(1.0, in_host / whole) if whole else 0.0,
        )

    def weight_bytes(self, tokens: Amount, exponent: float) -> Amount:
        """Bytes of weights that a step of so many tokens reads."""
        total: Amount = 0.0
        for matrices in self.matrices:
            total = total + matrices.read(tokens * self.replicas, exponent)
        return total

    def cache_bytes(self, batch: Amount, context: Amount) -> Amount:
        """Bytes of KV cache and states that `batch` requests of mean length `context` touch."""
        of_one: Amount = self.state_bytes
        for reads in self.caches:
            of_one = of_one + reads.bytes(context)
        return batch * of_one

    def attention_flops(self, context: Amount) -> Amount:
        """Operations of attention for one query token at the end of `context` tokens."""
        total: Amount = 0.0
        for reads in self.caches:
            total = total + reads.layers * reads.flops * reads.vectors(context)
        return total

    def prompt_attention_flops(self, prompt: Amount, cached: Amount = 0) -> Amount:
        """Operations of attention of a prompt whose first `cached` tokens were processed before.

        Each token attends to what comes before it: on average to the middle of the new part.
        """
        total: Amount = 0.0
        middle = (prompt + cached) / 2
        for reads in self.caches:
            total = total + reads.layers * reads.prompt_flops * reads.vectors(middle)
        return (prompt - cached) * total


def cache_reads(layers: Iterable[Attention], memory: MemoryPlan) -> Iterator[CacheReads]:
    """What layers of attention read, those that are alike together."""
    config = memory.config
    ranks = config.given.tensor_parallel_size
    for attention, count in Counter(layers).items():
        if attention.kind is AttentionKind.ENCODER_ONLY:
            continue
        per_head = float(cached_token_bytes(attention, config.kv_cache_dtype, config.dtype_bytes))
        flops = 4.0 * max(1.0, attention.num_heads / ranks) * attention.head_size
        latent = attention.kind in _LATENT
        yield CacheReads(
            count,
            per_head * _heads_read(attention, ranks),
            attention.window,
            attention.compression * config.given.decode_context_parallel_size,
            attention.index_topk,
            flops,
            flops * _MLA_PROMPT_SHARE if latent else flops,
        )


def _heads_read(attention: Attention, ranks: int) -> float:
    """KV heads of a rank; they are replicated where ranks outnumber them."""
    if attention.kind in _LATENT:
        return 1.0
    return attention.num_kv_heads / min(ranks, attention.num_kv_heads)


def _matrices(memory: MemoryPlan) -> Iterator[Matrices]:
    """The parts of the model: bytes as the plan has them on a rank, formats and operations."""
    card = memory.card
    ranks = memory.config.given.tensor_parallel_size
    flops: dict[str, float] = {}
    kinds: dict[str, tuple[float, str]] = {}
    active: dict[str, float] = {}
    for layer, count in card.different_layers:
        for module in layer.modules:
            if not isinstance(module, Linear | Experts | Bulk):
                continue
            part, used = part_of(module), float(module.elements)
            if isinstance(module, Experts):
                active[part] = module.active / module.count
                used *= active[part]
            elif isinstance(module, Bulk):
                active[part] = module.active / module.elements
                used = float(module.active)
            whole = isinstance(module, Linear) and module.shard is Shard.REPLICATED
            flops[part] = flops.get(part, 0.0) + 2 * count * used / (1 if whole else ranks)
            kind = module.kind if isinstance(module, Bulk) else module.format.kind
            kinds[part] = max(kinds.get(part, (0.0, "")), (count * used, kind))
    parts = [rank.parts for rank in memory.ranks]
    held = {
        "attention": sum(part.attention + part.norms for part in parts),
        "mlp": sum(part.mlp for part in parts),
        "experts": sum(part.experts for part in parts),
    }
    for part, size in held.items():
        if not size and part not in flops:
            continue
        drawn = DrawnWeights(float(size), active[part]) if part in active else None
        kind = kinds[part][1] if part in kinds else "16bit"
        always = 0.0 if drawn is not None else float(size)
        yield Matrices(part, kind, always, drawn, flops.get(part, 0.0))
    head = card.lm_head or card.embedding
    read = sum(part.lm_head or (part.embedding if card.tied else 0) for part in parts[-1:])
    yield Matrices("head", head.format.kind, float(read), None, 2.0 * head.elements / ranks)


def _expert_layers(card: ModelCard) -> int:
    """Layers with routed experts."""
    return sum(
        count
        for layer, count in card.different_layers
        if any(isinstance(module, Experts) for module in layer.modules)
    )
