"""KV cache groups: layers that share a block table (vLLM's v1/core/kv_cache_planning.py).

All groups share one pool: a block id belongs to one group at a time, so the bytes of a block are
the most that any group's layers need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import lcm

from msgspec import Struct
from msgspec.structs import replace

from planner.memory.kv_packing import packed
from planner.memory.kv_specs import (
    WHOLE,
    KVCacheSpec,
    NoCommonLayout,
    SpecKind,
    ceil_div,
    one_type,
    round_up,
)

_LOCAL = (SpecKind.SLIDING, SpecKind.CHUNKED)  # not windows of latent vectors: vLLM fails there


class KVCacheGroup(Struct, frozen=True):
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
        return cls(tuple(members), specs, tuple(dict.fromkeys(_objects(specs))))

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

    def stride_alignment(self, layers: frozenset[int] | None = None) -> int:
        """Bytes that blocks of all (or those) member layers lie apart in multiples of."""
        return lcm(
            *(
                spec.stride_alignment
                for layer, spec in zip(self.layers, self.specs, strict=True)
                if layers is None or layer in layers
            )
        )

    def blocks_per_request(self, length: int, in_flight_tokens: int) -> int:
        """Blocks that one request takes from this group."""
        return max(spec.blocks_per_request(length, in_flight_tokens) for spec in self.distinct)


def group_layers(
    specs: tuple[KVCacheSpec, ...],
    stages: tuple[frozenset[int], ...] = (),
    *,
    hybrid: bool = True,
    block_outermost: bool = False,
) -> tuple[KVCacheGroup, ...]:
    """KV cache groups of the whole model, from the specs of its caches in order.

    `stages` are the indices of the caches on each pipeline stage. `hybrid=False` is
    `--disable-hybrid-kv-cache-manager`: local attention is cached whole if any layer attends in
    full. `block_outermost`: pages of several sizes may lie side by side in a block. Raises
    `NoCommonLayout` where vLLM finds none for all layers.
    """
    cached = dict(enumerate(specs))
    if not cached:
        return ()
    if not all(stages):
        raise NoCommonLayout("a pipeline stage has no KV cache at all, which vLLM cannot plan")
    if not hybrid:
        cached = _whole(cached)
    if _uniform(cached):
        return (KVCacheGroup.of(cached),)
    if block_outermost and len({spec.page_size_bytes for spec in cached.values()}) > 1:
        return tuple(KVCacheGroup.of(members) for members in packed(cached))
    try:
        return _equal_groups(_unify_pages(cached))
    except NoCommonLayout:
        if not _may_be_whole(cached):
            raise
        return (KVCacheGroup.of(_whole(cached)),)


def request_blocks(groups: tuple[KVCacheGroup, ...], length: int, in_flight_tokens: int) -> int:
    """Blocks that one request of `length` tokens takes from all groups."""
    return sum(group.blocks_per_request(length, in_flight_tokens) for group in groups)


def block_bytes(
    groups: tuple[KVCacheGroup, ...], layers: frozenset[int] | None, *, aligned: bool
) -> int:
    """Bytes of one block of the pool, over all or those layers.

    `aligned`: pages lie side by side in a block, and blocks whole kernel blocks apart.
    """
    largest = max(group.page_bytes(layers) for group in groups)
    if not aligned:
        return largest
    return round_up(largest, lcm(*(group.stride_alignment(layers) for group in groups)))


def _objects(specs: Iterable[KVCacheSpec]) -> list[KVCacheSpec]:
    """Each object once: most layers share theirs, and comparing them all takes long."""
    return list({id(spec): spec for spec in specs}.values())


def _uniform(specs: Mapping[int, KVCacheSpec]) -> bool:
    """Whether one group holds all layers: vLLM merges their specs, or all are of one type."""
    values = _objects(specs.values())
    return _mergeable(values) or one_type(values)


def _whole(specs: dict[int, KVCacheSpec]) -> dict[int, KVCacheSpec]:
    """Windows and chunks cached whole, in the block size of the full layers."""
    if _uniform(specs):
        return specs
    full = {spec.block_size for spec in specs.values() if spec.kind in WHOLE}

    def promote(spec: KVCacheSpec) -> KVCacheSpec:
        if spec.kind not in _LOCAL:
            return spec
        size = next(iter(full)) if len(full) == 1 else spec.block_size
        return replace(spec.resized(size), kind=SpecKind.FULL)

    promoted = {index: promote(spec) for index, spec in specs.items()} if full else specs
    if _conflicting_windows(specs) or not _uniform(promoted):
        raise NoCommonLayout("vLLM cannot cache all layers of this model whole, in one group")
    return promoted


def _conflicting_windows(specs: Mapping[int, KVCacheSpec]) -> bool:
    """Whether windows (or chunks) of several lengths keep vLLM from merging dense layers."""
    values = specs.values()
    if any(spec.kind not in (SpecKind.FULL, *_LOCAL) for spec in values):
        return False
    return any(len({spec.window for spec in values if spec.kind is kind}) > 1 for kind in _LOCAL)


def _may_be_whole(specs: Mapping[int, KVCacheSpec]) -> bool:
    """Whether vLLM tries to cache windows whole where it finds no common page."""
    kinds = {spec.kind for spec in specs.values()}
    return {SpecKind.MLA, SpecKind.SLIDING} <= kinds and SpecKind.CHUNKED not in kinds


def _mergeable(specs: list[KVCacheSpec]) -> bool:
    """Whether vLLM merges these into one: equal, or full attention that differs in window only."""
    first = specs[0]
    if first.kind is not SpecKind.FULL:
        return all(spec == first for spec in specs)
    windows = {spec.window for spec in specs if spec.window is not None}
    bare = replace(first, window=None)
    return len(windows) <= 1 and all(replace(spec, window=None) == bare for spec in specs)


def _unify_pages(specs: dict[int, KVCacheSpec]) -> dict[int, KVCacheSpec]:
    """One page size for all: smaller pages take more tokens, or are padded."""
    objects = _objects(specs.values())
    largest = max(spec.page_size_bytes for spec in objects)
    unified = {id(spec): _of_page(spec, largest) for spec in objects}
    return {index: unified[id(spec)] for index, spec in specs.items()}


def _of_page(spec: KVCacheSpec, page_bytes: int) -> KVCacheSpec:
    """The spec in pages of that size, no smaller than its own."""
    ratio, rest = divmod(page_bytes, spec.page_size_bytes)
    if spec.kind is not SpecKind.MAMBA and not rest:
        return replace(spec, page_size_bytes=page_bytes, block_size=spec.block_size * ratio)
    if spec.kind is SpecKind.MLA:
        raise NoCommonLayout(
            "the pages of MLA layers cannot be padded to those of the other layers: vLLM finds "
            "no common KV cache page"
        )
    return replace(spec, page_size_bytes=page_bytes)


def _equal_groups(specs: dict[int, KVCacheSpec]) -> tuple[KVCacheGroup, ...]:
    """Groups of equally many layers: each kind is dealt out over as many as it needs."""
    buckets: list[dict[int, KVCacheSpec]] = []
    known: dict[int, dict[int, KVCacheSpec]] = {}  # by object
    for index, spec in specs.items():
        if id(spec) not in known:
            fitting = (b for b in buckets if _mergeable([*_objects(b.values()), spec]))
            bucket = next(fitting, None)
            if bucket is None:
                bucket = {}
                buckets.append(bucket)
            known[id(spec)] = bucket
        known[id(spec)][index] = spec
    sizes = [len(bucket) for bucket in buckets]
    size = max(sizes) if max(sizes) < 1.5 * min(sizes) else min(sizes)
    groups = []
    for bucket in buckets:
        layers = _by_spec(bucket)
        count = ceil_div(len(layers), size)
        for start in range(count):
            chosen = layers[start::count]
            groups.append(KVCacheGroup.of({index: bucket[index] for index in chosen}))
    return tuple(groups)


def _by_spec(bucket: dict[int, KVCacheSpec]) -> list[int]:
    """Layers of a bucket as vLLM lists them: all of one spec, then all of the next."""
    objects = _objects(bucket.values())
    first_seen: dict[KVCacheSpec, int] = {}
    for spec in objects:
        first_seen.setdefault(spec, len(first_seen))
    place = {id(spec): first_seen[spec] for spec in objects}
    return sorted(bucket, key=lambda index: (place[id(bucket[index])], index))
