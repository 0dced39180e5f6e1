"""The KV cache: specs of all layers, and what a pool of so many bytes holds, as vLLM prints it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

from msgspec import Struct
from msgspec.structs import replace

from model_cards.caches import Attention, AttentionKind, RecurrentState
from model_cards.card import ModelCard
from planner.engine.attention import Backends
from planner.engine.cpu import cpu_state
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.kv_cache_dtypes import DS_MLA, is_packed
from planner.engine.recurrent import checkpoint_alignment, state_blocks
from planner.memory.block_size import (
    BlockSizes,
    common_block_size,
    hybrid_block_sizes,
    packed_block_size,
)
from planner.memory.kv_groups import KVCacheGroup, block_bytes, request_blocks
from planner.memory.kv_specs import (
    WHOLE,
    KVCacheSpec,
    SpecKind,
    attention_spec,
    ring_tokens,
    state_bytes,
)

_BESIDE_ATTENTION = (AttentionKind.INDEXER, AttentionKind.TAIL)


class KVCachePlan(Struct, frozen=True):
    """What a pool of so many bytes holds, as vLLM would print it."""

    groups: tuple[KVCacheGroup, ...]
    bytes_per_block: tuple[int, ...]  # of each pipeline stage's rank
    blocks_per_request: int  # for one request of `max_model_len`, over all groups
    max_model_len: int
    num_blocks: int
    tokens: int  # "GPU KV cache size: N tokens"
    concurrency: float  # "Maximum concurrency for L tokens per request: N x"
    needed_bytes: int  # on the tightest stage, for one request and the null block
    shortfall_bytes: int  # missing on the tightest stage; 0 if one request fits
    longest_len: int  # longest `max_model_len` this pool can serve, 0 if none

    @property
    def fits(self) -> bool:
        """Whether vLLM would start: one request of full length fits."""
        return self.shortfall_bytes == 0


def cache_specs(
    card: ModelCard,
    config: ResolvedConfig,
    device: DeviceFacts,
    backends: Backends,
) -> tuple[KVCacheSpec, ...]:
    """The spec of every cache of the model, in order (`card.caches()`), and then of its draft."""
    drafted, sizes = config.speculative_tokens, _block_sizes(card, config, device, backends)
    ranks = config.given.tensor_parallel_size
    known: dict[Attention | RecurrentState, KVCacheSpec] = {}
    for attention, backend in backends.items():
        if attention.kind is AttentionKind.ENCODER_ONLY:
            continue  # caches nothing
        sliding = attention.kind is AttentionKind.SLIDING
        block = backend.local_block(sizes.attention) if sliding else sizes.attention
        block = backend.layer_block or block
        if attention.kind is AttentionKind.TAIL and attention.window is not None:
            block = max(ring_tokens(attention.window, drafted), backend.layer_block or 1)
        dtype = backend.kv_cache_dtype or config.kv_cache_dtype
        known[attention] = replace(
            attention_spec(
                attention, ranks, dtype, config.dtype_bytes, block, backend.page_alignment
            ),
            retained_tokens=config.retained_tokens if sliding else 0,
            encoder_tokens=config.encoder_tokens if attention.kind is AttentionKind.CROSS else 0,
            longest_kernel_block=None if backend.multiples else max(backend.kernel_blocks),
            stride_tokens=backend.stride_tokens,
        )
    for state in card.states:
        size = _state_bytes(state, config, device)
        known[state] = KVCacheSpec(
            SpecKind.MAMBA,
            sizes.state,
            max(size, sizes.state_page_bytes),
            state=state,
            state_blocks=state_blocks(state, device, config),
            checkpoint_alignment=checkpoint_alignment(state, device, config),
        )
    drafts = config.draft_attention
    shared = config.given.decode_context_parallel_size  # of the target's whole caches
    split = {
        cache: replace(spec, context_ranks=shared) if spec.kind in WHOLE else spec
        for cache, spec in known.items()
    }
    return (
        *(split[cache] for cache in card.caches()),
        *(known[cache] for cache in drafts),
    )


def _block_sizes(
    card: ModelCard,
    config: ResolvedConfig,
    device: DeviceFacts,
    backends: Backends,
) -> BlockSizes:
    distinct = tuple(dict.fromkeys(backends.values()))
    size = common_block_size(distinct, config.block_size)
    if is_packed(config.kv_cache_dtype):
        native = any(not attention.follows_cache_dtype for attention in backends)
        size = packed_block_size(distinct[0], size, config.dtype_bytes) if native else size
    if not card.states:
        return BlockSizes(size, config.max_model_len, 0)
    if not backends:  # attention-free: states only
        return BlockSizes(size, size if config.prefix_caching else config.max_model_len, 0)
    ranks = config.given.tensor_parallel_size
    first = next(a for a in backends if a.kind not in _BESIDE_ATTENTION)
    # vLLM takes the records of sparse MLA for one byte an element here.
    packed = backends[first].kv_cache_dtype == DS_MLA
    if first.kind is not AttentionKind.MLA:  # vLLM takes values to be as wide as keys
        first = replace(first, head_size_v=first.head_size)
    dtype = "fp8" if packed else config.kv_cache_dtype
    token = attention_spec(first, ranks, dtype, config.dtype_bytes, 1)
    return hybrid_block_sizes(
        distinct,
        size,
        token_bytes=token.page_size_bytes,
        state_bytes=max(_state_bytes(state, config, device) for state in card.states),
        mla=token.kind is SpecKind.MLA,
        checkpoint_alignment=_checkpoint_alignment(card, config, device),
        align=config.prefix_caching,
        max_model_len=config.max_model_len,
    )


def _state_bytes(state: RecurrentState, config: ResolvedConfig, device: DeviceFacts) -> int:
    return state_bytes(
        cpu_state(state, device) if device.platform is Platform.CPU else state,
        config.given.tensor_parallel_size,
        config.dtype_bytes,
        config.speculative_tokens,
    )


def _checkpoint_alignment(card: ModelCard, config: ResolvedConfig, device: DeviceFacts) -> int:
    """Tokens that blocks are a multiple of where all layers keep states inside a prefill."""
    if not config.release.fact("hybrid_blocks_fit_checkpoints"):
        return 1
    found = [checkpoint_alignment(state, device, config) for state in card.states]
    known = [alignment for alignment in found if alignment is not None]
    return lcm(*known) if len(known) == len(found) else 1


def plan_kv_cache(
    groups: tuple[KVCacheGroup, ...],
    stages: Sequence[frozenset[int]],
    available: Sequence[int],
    *,
    max_model_len: int,
    in_flight_tokens: int,
    auto_length: bool = False,
    null_block: bool = True,
    by_concurrency: bool = True,
    blocks_override: int | None = None,
    block_outermost: bool = False,
) -> KVCachePlan:
    """What pools of `available` bytes on each stage's rank hold.

    `stages` are the indices of the caches on each pipeline stage. `null_block`: one block is held
    back in the check whether a request fits. `auto_length` shortens `max_model_len` to what fits.
    Not `by_concurrency`: tokens are printed as older releases count them, the blocks dealt out
    evenly.
    """
    if not groups:  # attention-free: nothing grows with tokens
        return KVCachePlan((), (0,) * len(stages), 0, max_model_len, 1, 0, 0.0, 0, 0, max_model_len)
    per_block = tuple(
        block_bytes(groups, layers if len(stages) > 1 else None, aligned=block_outermost)
        for layers in stages
    )
    held = 1 if null_block else 0

    def needs(length: int) -> int:
        return request_blocks(groups, length, in_flight_tokens)

    if blocks_override is not None:
        available = [blocks_override * size for size in per_block]
    # Blocks a request may use on the tightest stage.
    usable = min(pool // size - held for pool, size in zip(available, per_block, strict=True))
    longest = _longest(needs, usable, max_model_len)
    length = max(1, longest) if auto_length and longest < max_model_len else max_model_len
    blocks = needs(length)
    needed = [(blocks + held) * size for size in per_block]
    shortfalls = [max(0, need - pool) for need, pool in zip(needed, available, strict=True)]
    worst = max(range(len(stages)), key=lambda stage: (shortfalls[stage], needed[stage]))
    num_blocks = min(pool // size for pool, size in zip(available, per_block, strict=True))
    concurrency = num_blocks / blocks
    return KVCachePlan(
        groups,
        per_block,
        blocks,
        length,
        num_blocks,
        int(concurrency * length) if by_concurrency else dealt_tokens(num_blocks, groups),
        concurrency,
        needed[worst],
        shortfalls[worst],
        longest,
    )


def dealt_tokens(num_blocks: int, groups: tuple[KVCacheGroup, ...]) -> int:
    """Tokens as vLLM printed them up to 0.20.0: each group its share of the blocks."""
    return num_blocks // len(groups) * min(group.block_size for group in groups)


def _longest(needs: Callable[[int], int], usable: int, limit: int) -> int:
    """Longest length up to `limit` whose blocks are usable; 0 if not even one token fits."""
    if needs(limit) <= usable:
        return limit
    if needs(1) > usable:
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if needs(middle) <= usable:
            low = middle
        else:
            high = middle - 1
    return low
