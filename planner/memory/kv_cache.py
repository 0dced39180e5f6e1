"""The KV cache as vLLM plans it: specs, groups, bytes per block, blocks, tokens, concurrency.

vLLM's `v1/core/kv_cache_planning.py` in its own terms. A *page* is one block of one layer on one
rank. All groups share one pool: a block id belongs to one group at a time, so the bytes of a block
are the most that any group's layers need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from model_cards.card import Attention, AttentionKind
from planner.engine.attention import cached_token_bytes
from planner.memory.parallel import Indivisible


class SpecKind(Enum):
    """vLLM's KV cache specs."""

    FULL = "FullAttentionSpec"
    SLIDING = "SlidingWindowSpec"
    MLA = "MLAAttentionSpec"


@dataclass(frozen=True, slots=True)
class KVCacheSpec:
    """The cache format of one layer on one rank."""

    kind: SpecKind
    block_size: int  # tokens
    page_size_bytes: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    window: int | None = None

    def blocks_per_request(self, length: int, in_flight_tokens: int) -> int:
        """Blocks that one request of `length` tokens can come to hold."""
        if self.kind is SpecKind.SLIDING:
            assert self.window is not None
            # Blocks behind the window are freed once a step is settled, so what is in flight
            # is held too; the window may begin inside a block.
            tokens = min(self.window - 1 + in_flight_tokens, length)
            return _ceil_div(tokens, self.block_size) + 1
        return _ceil_div(length, self.block_size)


@dataclass(frozen=True, slots=True)
class KVCacheGroup:
    """Layers (by index) that share a block table.

    `specs` are the layers' own; they differ only in a group of one type but several widths.
    """

    layers: tuple[int, ...]
    specs: tuple[KVCacheSpec, ...]
    distinct: tuple[KVCacheSpec, ...]  # of `specs`

    @classmethod
    def of(cls, members: Mapping[int, KVCacheSpec]) -> KVCacheGroup:
        """The group of these layers."""
        specs = tuple(members.values())
        return cls(tuple(members), specs, tuple(dict.fromkeys(specs)))

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return self.specs[0].block_size

    def page_bytes(self, layers: frozenset[int] | None = None) -> int:
        """Bytes of one block over all (or those) member layers."""
        return sum(
            spec.page_size_bytes
            for layer, spec in zip(self.layers, self.specs, strict=True)
            if layers is None or layer in layers
        )

    def blocks_per_request(self, length: int, in_flight_tokens: int) -> int:
        """Blocks that one request takes from this group."""
        return max(spec.blocks_per_request(length, in_flight_tokens) for spec in self.distinct)


@dataclass(frozen=True, slots=True)
class KVCachePlan:
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


def layer_spec(
    attention: Attention, ranks: int, kv_cache_dtype: str, dtype_bytes: int, block_size: int
) -> KVCacheSpec:
    """The spec of a layer on one of `ranks` tensor-parallel ranks."""
    kinds = {
        AttentionKind.FULL: SpecKind.FULL,
        AttentionKind.SLIDING: SpecKind.SLIDING,
        AttentionKind.MLA: SpecKind.MLA,
    }
    kind = kinds[attention.kind]
    if kind is SpecKind.MLA:
        heads = 1  # the latent vector is whole on every rank
    else:
        heads = attention.num_kv_heads
        if ranks >= heads and ranks % heads == 0:
            heads = 1
        elif heads % ranks == 0:
            heads //= ranks
        else:
            raise Indivisible(
                f"{heads} KV heads cannot be shared by tensor parallel size ({ranks})"
            )
    per_token = heads * cached_token_bytes(attention, kv_cache_dtype, dtype_bytes)
    return KVCacheSpec(
        kind,
        block_size,
        int(per_token * block_size),
        heads,
        attention.head_size,
        attention.head_size_v,
        attention.window,
    )


def group_layers(
    specs: Sequence[KVCacheSpec | None], *, hybrid: bool = True
) -> tuple[KVCacheGroup, ...]:
    """KV cache groups of the whole model; layers without a cache are None.

    `hybrid=False` is `--disable-hybrid-kv-cache-manager`: windows are cached whole if any layer
    attends in full.
    """
    cached = {index: spec for index, spec in enumerate(specs) if spec is not None}
    if not hybrid and any(spec.kind is not SpecKind.SLIDING for spec in cached.values()):
        cached = {
            index: replace(spec, kind=SpecKind.FULL, window=None)
            if spec.kind is SpecKind.SLIDING
            else spec
            for index, spec in cached.items()
        }
    if not cached:
        return ()
    if len(set(cached.values())) == 1 or _one_type(list(cached.values())):
        return (KVCacheGroup.of(cached),)
    return _equal_groups(_unify_pages(cached))


def _one_type(specs: list[KVCacheSpec]) -> bool:
    """Whether all need the same number of token slots, whatever their width."""
    first = specs[0]
    same_block = all(spec.block_size == first.block_size for spec in specs)
    if first.kind is SpecKind.SLIDING:
        return same_block and all(
            spec.kind is SpecKind.SLIDING and spec.window == first.window for spec in specs
        )
    return same_block and all(spec.kind is not SpecKind.SLIDING for spec in specs)


def _unify_pages(specs: dict[int, KVCacheSpec]) -> dict[int, KVCacheSpec]:
    """One page size for all: smaller pages take more tokens, or are padded."""
    largest = max(spec.page_size_bytes for spec in specs.values())
    unified = {}
    for index, spec in specs.items():
        ratio, rest = divmod(largest, spec.page_size_bytes)
        if rest:
            unified[index] = replace(spec, page_size_bytes=largest)
        else:
            unified[index] = replace(
                spec, page_size_bytes=largest, block_size=spec.block_size * ratio
            )
    return unified


def _equal_groups(specs: dict[int, KVCacheSpec]) -> tuple[KVCacheGroup, ...]:
    """Groups of equally many layers: each kind is dealt out over as many as it needs."""
    buckets: dict[KVCacheSpec, list[int]] = {}
    for index, spec in specs.items():
        buckets.setdefault(spec, []).append(index)
    sizes = [len(layers) for layers in buckets.values()]
    size = max(sizes) if max(sizes) < 1.5 * min(sizes) else min(sizes)
    groups = []
    for spec, layers in buckets.items():
        count = _ceil_div(len(layers), size)
        for start in range(count):
            groups.append(KVCacheGroup.of(dict.fromkeys(layers[start::count], spec)))
    return tuple(groups)


def plan_kv_cache(
    groups: tuple[KVCacheGroup, ...],
    stages: Sequence[frozenset[int]],
    available: Sequence[int],
    *,
    max_model_len: int,
    in_flight_tokens: int,
    auto_length: bool = False,
    null_block: bool = True,
    blocks_override: int | None = None,
) -> KVCachePlan:
    """What pools of `available` bytes on each stage's rank hold.

    `stages` are the layer indices of each pipeline stage. `null_block`: one block is held back in
    the check whether a request fits. `auto_length` shortens `max_model_len` to what fits.
    """
    if not groups:  # attention-free: nothing grows with tokens
        return KVCachePlan((), (0,) * len(stages), 0, max_model_len, 1, 0, 0.0, 0, 0, max_model_len)
    per_block = tuple(
        max(group.page_bytes(layers if len(stages) > 1 else None) for group in groups)
        for layers in stages
    )
    held = 1 if null_block else 0

    def request_blocks(length: int) -> int:
        return sum(group.blocks_per_request(length, in_flight_tokens) for group in groups)

    if blocks_override is not None:
        available = [blocks_override * size for size in per_block]
    # Blocks a request may use on the tightest stage.
    usable = min(
        (pool // size) - held for pool, size in zip(available, per_block, strict=True) if size
    )
    longest = _longest(request_blocks, usable, max_model_len)
    length = max(1, longest) if auto_length and longest < max_model_len else max_model_len
    blocks = request_blocks(length)
    needed = [(blocks + held) * size for size in per_block]
    shortfalls = [max(0, need - pool) for need, pool in zip(needed, available, strict=True)]
    worst = max(range(len(stages)), key=lambda stage: (shortfalls[stage], needed[stage]))
    num_blocks = max(
        0, min(pool // size for pool, size in zip(available, per_block, strict=True) if size)
    )
    concurrency = num_blocks / blocks
    return KVCachePlan(
        groups,
        per_block,
        blocks,
        length,
        num_blocks,
        int(concurrency * length),
        concurrency,
        needed[worst],
        shortfalls[worst],
        longest,
    )


def _longest(request_blocks: Callable[[int], int], usable: int, limit: int) -> int:
    """Longest length up to `limit` whose blocks are usable; 0 if not even one token fits."""
    if request_blocks(1) > usable:
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if request_blocks(middle) <= usable:
            low = middle
        else:
            high = middle - 1
    return low


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
