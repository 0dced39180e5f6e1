"""Block sizes: what the attention backends take, and what recurrent layers force on them.

vLLM's `update_block_size_for_backend` (platforms/interface.py). A hybrid model's attention page
must be at least as large as the state of a recurrent layer, so its blocks become hundreds of
tokens long; the state is padded to the same size.
"""

from __future__ import annotations

from itertools import product
from math import lcm

from msgspec import Struct

from planner.engine.backend import DEFAULT_BLOCK_SIZE, AttentionBackend
from planner.memory.kv_specs import ceil_div

_MLA_HYBRID_ALIGNMENT = 128


class BlockSizes(Struct, frozen=True):
    """Tokens of a block of attention and of recurrent layers, and the page they share."""

    attention: int
    state: int
    state_page_bytes: int  # the padded page of a recurrent layer; 0 if none is padded


def common_block_size(backends: tuple[AttentionBackend, ...], asked: int | None) -> int:
    """The block size for all backends: as asked, else 16, else the smallest that all take."""
    if asked is not None:
        return asked
    if not backends:
        return DEFAULT_BLOCK_SIZE
    if len(backends) == 1:
        return backends[0].preferred_block_size
    if all(backend.supports(DEFAULT_BLOCK_SIZE) for backend in backends):
        return DEFAULT_BLOCK_SIZE
    candidates = {lcm(*sizes) for sizes in product(*(b.kernel_blocks for b in backends))}
    return next(
        (size for size in sorted(candidates) if all(b.supports(size) for b in backends)),
        max(candidates),
    )


def packed_block_size(backend: AttentionBackend, block_size: int, dtype_bytes: int) -> int:
    """Tokens of a block where packed caches and native ones of the outer layers share a pool.

    A block of packed tokens, which vLLM takes for one byte an element here, must be no smaller
    than the smallest native one.
    """
    kernel = max(backend.smallest_block, block_size)
    smallest = backend.smallest_block * dtype_bytes
    return max(block_size, kernel * ceil_div(smallest, kernel))


def hybrid_block_sizes(
    backends: tuple[AttentionBackend, ...],
    block_size: int,
    *,
    token_bytes: int,
    state_bytes: int,
    mla: bool,
    checkpoint_alignment: int,
    align: bool,
    max_model_len: int,
) -> BlockSizes:
    """Block sizes of a model with recurrent layers.

    `token_bytes` are those of one token in one attention layer, `align` the cache mode of a model
    with prefix caching, where states are kept at block boundaries.
    """
    kernel = max(backends[0].smallest_block, block_size)
    if mla:
        kernel = max(kernel, _MLA_HYBRID_ALIGNMENT)
    if align:
        kernel = lcm(kernel, checkpoint_alignment)
    needed = kernel * ceil_div(state_bytes, kernel * token_bytes)
    all_backends = lcm(*(backend.smallest_block for backend in backends))
    size = max(block_size, all_backends * ceil_div(needed, all_backends))
    page = size * token_bytes
    return BlockSizes(size, size if align else max_model_len, page if page != state_bytes else 0)
