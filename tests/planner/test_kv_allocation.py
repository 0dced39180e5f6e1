"""KV caches that vLLM plans but cannot allocate, and layouts it does not find."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from planner.engine.backend import AttentionBackend
from planner.memory.kv_allocation import allocation_problem, kernel_block
from planner.memory.kv_groups import group_layers
from planner.memory.kv_specs import KVCacheSpec, NoCommonLayout, SpecKind

ANY = AttentionBackend("ANY", (16,))
FIXED = AttentionBackend("FIXED", (16, 32, 64), multiples=False)
LONG = AttentionBackend("LONG", (128,), multiples=False)


def spec(kind: SpecKind, token_bytes: int, block: int = 64, window: int = 0) -> KVCacheSpec:
    return KVCacheSpec(
        kind, block, block * token_bytes, window=window or None, token_bytes=token_bytes
    )


FULL, MLA = spec(SpecKind.FULL, 512), spec(SpecKind.MLA, 576)
SLIDING = spec(SpecKind.SLIDING, 192, window=1024)


@pytest.mark.parametrize(
    ("block", "backends", "expected"),
    [
        (1088, [ANY], 1088),
        (64, [FIXED], 64),
        (96, [FIXED], 32),
        (128, [FIXED, ANY], 64),
        (128, [FIXED, LONG], None),
        (256, [LONG, ANY], 128),
        (24, [ANY], None),
        (24, [], 24),
    ],
)
def test_kernel_blocks(block: int, backends: list[AttentionBackend], expected: int | None) -> None:
    assert kernel_block(block, backends) == expected


def test_padded_blocks_cannot_be_split() -> None:
    """The windows' pages do not divide those of full attention, so they are padded."""
    specs = (
        replace(FULL, block_size=128, page_size_bytes=128 * 512),
        replace(SLIDING, block_size=128, page_size_bytes=128 * 192),
    )
    stages = (frozenset({0, 1}),)
    groups = group_layers(specs, stages)
    assert allocation_problem(groups, stages, [ANY, ANY], block_outermost=False) is None
    problem = allocation_problem(groups, stages, [ANY, FIXED], block_outermost=False)
    assert problem is not None
    assert "FIXED would have to split blocks of 128 tokens" in problem


def test_kernels_need_to_agree_on_a_stage_only() -> None:
    specs = (spec(SpecKind.FULL, 512, 128),) * 2
    together, apart = (frozenset({0, 1}),), (frozenset({0}), frozenset({1}))
    groups = group_layers(specs, together)
    assert len(groups) == 1
    assert allocation_problem(groups, together, [FIXED, LONG], block_outermost=False) is not None
    assert allocation_problem(groups, apart, [FIXED, LONG], block_outermost=False) is None


def test_windows_beside_latent_vectors_are_cached_whole() -> None:
    """576 B of latent vectors cannot be padded to the 1,024 B of windows; one group holds all."""
    (group,) = group_layers((MLA, spec(SpecKind.SLIDING, 1024, window=512)))
    assert [each.kind for each in group.specs] == [SpecKind.MLA, SpecKind.FULL]
    assert group.blocks_per_request(64_000, 2048) == 1000


@pytest.mark.parametrize(
    "specs",
    [
        (MLA, spec(SpecKind.CHUNKED, 1024, window=512)),
        (MLA, spec(SpecKind.SLIDING, 1024, block=32, window=512), spec(SpecKind.MLA, 100, 16)),
    ],
)
def test_no_common_page(specs: tuple[KVCacheSpec, ...]) -> None:
    with pytest.raises(NoCommonLayout):
        group_layers(specs)


def test_a_stage_without_a_cache() -> None:
    with pytest.raises(NoCommonLayout, match="pipeline stage"):
        group_layers((FULL,), (frozenset({0}), frozenset()))


def test_what_cannot_be_cached_whole() -> None:
    """Windows of two lengths do not merge, nor do states with attention."""
    state = KVCacheSpec(SpecKind.MAMBA, 64, 64 * 512, state_blocks=1)
    for specs in ((FULL, SLIDING, replace(SLIDING, window=2048)), (FULL, state)):
        assert group_layers(specs)
        with pytest.raises(NoCommonLayout):
            group_layers(specs, hybrid=False)
    (group,) = group_layers((FULL, SLIDING), hybrid=False)
    assert {each.kind for each in group.specs} == {SpecKind.FULL}
