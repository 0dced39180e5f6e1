"""Packed KV cache groups: pages of several sizes side by side in one block.

For KV cache layouts with the block outermost (vLLM's `_get_packed_kv_cache_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from planner.memory.kv_specs import KVCacheSpec, NoCommonLayout, SpecKind, ceil_div, one_type

_STATES = frozenset({SpecKind.MAMBA, SpecKind.CIRCULAR})
_WINDOWS = frozenset({SpecKind.SLIDING, SpecKind.SLIDING_MLA})
_STATES = frozenset({SpecKind.MAMBA, SpecKind.CIRCULAR})


class _Bucket(Struct, frozen=True):
    """Layers that need the same number of blocks, by the size of their pages."""

    layers: tuple[int, ...]
    by_page: dict[int, list[int]]
    spec: KVCacheSpec  # of the first layer

    @classmethod
    def of(cls, members: Mapping[int, KVCacheSpec]) -> _Bucket:
        by_page: dict[int, list[int]] = {}
        for layer, spec in members.items():
            by_page.setdefault(spec.page_size_bytes, []).append(layer)
        return cls(tuple(members), by_page, next(iter(members.values())))

    @property
    def repeats(self) -> int:
        """How often a pattern of one layer of each page size repeats."""
        return max(len(layers) for layers in self.by_page.values())

    @property
    def balanced(self) -> bool:
        """Whether there are equally many layers of each page size."""
        return len({len(layers) for layers in self.by_page.values()}) == 1

    def widest_group(self, groups: int) -> int:
        """Bytes of a block over the largest of so many groups."""
        return sum(ceil_div(len(layers), groups) * page for page, layers in self.by_page.items())

    def split(self, groups: int) -> list[tuple[int, ...]]:
        """Dealt out over so many groups, each with whole repeats of the pattern.

        Raises `NoCommonLayout` where there is no pattern.
        """
        if groups == 1:
            return [self.layers]
        if not self.balanced:
            raise NoCommonLayout("vLLM loses layers where it deals out windows of several widths")
        pattern = list(zip(*self.by_page.values(), strict=True))
        return [
            tuple(layer for repeat in pattern[start::groups] for layer in repeat)
            for start in range(groups)
        ]


def packed(specs: Mapping[int, KVCacheSpec]) -> list[dict[int, KVCacheSpec]]:
    """Members of each group.

    Layers that need the same number of blocks stay together, unless a bucket that mixes page sizes
    shows how many repeats of a pattern a group should have; those of one size are then dealt out
    to about as many. States need so little that they are dealt out rather than widen the block.
    """
    buckets = [_Bucket.of(members) for members in _by_type(specs)]
    mixed = [b.repeats for b in buckets if b.balanced and len(b.by_page) > 1]
    repeats = None
    if mixed:
        repeats = _common_size([b.repeats for b in buckets if b.balanced], at_least=max(mixed))

    def holds_states(bucket: _Bucket) -> bool:
        kind = bucket.spec.kind
        return kind in _STATES or (repeats is None and kind in _WINDOWS)

    def by_pattern(bucket: _Bucket) -> int:
        return ceil_div(bucket.repeats, repeats) if repeats and bucket.balanced else 1

    anchor = max(
        bucket.widest_group(len(bucket.layers) if holds_states(bucket) else by_pattern(bucket))
        for bucket in buckets
    )
    groups: list[dict[int, KVCacheSpec]] = []
    for bucket in buckets:
        count = by_pattern(bucket)
        if holds_states(bucket):
            in_a_block = max(anchor // bucket.spec.page_size_bytes, 1)
            count = max(count, ceil_div(len(bucket.layers), in_a_block))
        groups += ({layer: specs[layer] for layer in group} for group in bucket.split(count))
    return groups


def _by_type(specs: Mapping[int, KVCacheSpec]) -> list[dict[int, KVCacheSpec]]:
    """Layers that need the same number of blocks together."""
    buckets: list[dict[int, KVCacheSpec]] = []
    for layer, spec in specs.items():
        for bucket in buckets:
            if one_type([next(iter(bucket.values())), spec]):
                bucket[layer] = spec
                break
        else:
            buckets.append({layer: spec})
    return buckets


def _common_size(counts: list[int], *, at_least: int) -> int:
    """The group size that leaves fewest places empty; the larger of equals."""
    sizes = range(at_least, max(counts) + 1)
    if not sizes:
        return at_least
    return max(sizes, key=lambda size: (-sum(-count % size for count in counts), size))
