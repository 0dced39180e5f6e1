"""KV cache specs: the cache format of every layer on one rank, in vLLM's own classes.

A *page* is one block of one layer on one rank (v1/kv_cache_interface.py). A recurrent state is a
page too: one for each block it holds, whatever the block's length in tokens.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from model_cards.caches import Attention, AttentionKind, RecurrentState, StateKind
from model_cards.dtypes import DTYPE_BYTES
from planner.engine.kv_cache_dtypes import cached_token_bytes
from planner.engine.refusal import RefusalKind, Unloadable
from planner.memory.parallel import Indivisible, divide


class NoCommonLayout(Unloadable):
    """Caches that vLLM cannot lay out in one pool."""

    kind = RefusalKind.KV_LAYOUT


class SpecKind(Enum):
    """vLLM's KV cache specs."""

    FULL = "FullAttentionSpec"
    SLIDING = "SlidingWindowSpec"
    CHUNKED = "ChunkedLocalAttentionSpec"
    MLA = "MLAAttentionSpec"
    SLIDING_MLA = "SlidingWindowMLASpec"
    CIRCULAR = "CircularBufferSpec"
    MAMBA = "MambaSpec"
    CROSS = "CrossAttentionSpec"


# Kinds that need a slot for every token of a request, whatever the width of the slot.
WHOLE = frozenset({SpecKind.FULL, SpecKind.MLA})

_SPECS = {
    AttentionKind.FULL: SpecKind.FULL,
    AttentionKind.SLIDING: SpecKind.SLIDING,
    AttentionKind.CHUNKED: SpecKind.CHUNKED,
    AttentionKind.MLA: SpecKind.MLA,
    AttentionKind.SLIDING_MLA: SpecKind.SLIDING_MLA,
    AttentionKind.INDEXER: SpecKind.MLA,
    AttentionKind.COMPRESSOR: SpecKind.SLIDING_MLA,
    AttentionKind.TAIL: SpecKind.CIRCULAR,
    AttentionKind.CROSS: SpecKind.CROSS,
}
# One vector for all heads, whole on every rank.
_LATENT = frozenset(
    {
        AttentionKind.MLA,
        AttentionKind.SLIDING_MLA,
        AttentionKind.INDEXER,
        AttentionKind.COMPRESSOR,
        AttentionKind.TAIL,
    }
)


class KVCacheSpec(Struct, frozen=True, cache_hash=True):
    """The cache format of one layer on one rank."""

    kind: SpecKind
    block_size: int  # tokens
    page_size_bytes: int
    num_kv_heads: int = 0
    head_size: int = 0
    head_size_v: int = 0
    window: int | None = None  # tokens of a sliding window or of a local chunk
    retained_tokens: int = 0  # kept behind a sliding window
    longest_kernel_block: int | None = None  # where blocks are split into kernel blocks
    stride_tokens: int | None = None  # blocks lie whole pages of so many tokens apart
    state: RecurrentState | None = None
    state_blocks: int = 0  # blocks of a recurrent state that one request holds
    checkpoint_alignment: int | None = None  # tokens between states that its prefill hands out
    token_bytes: Fraction = Fraction(0)  # of one token, before any padding
    context_ranks: int = 1  # ranks that share the tokens of a request (decode context parallelism)
    page_alignment: int = 1  # bytes that a page is a multiple of
    encoder_tokens: int = 0  # states of an encoder that cross-attention holds for a request

    @property
    def padded(self) -> bool:
        """Whether the page is longer than its tokens need."""
        return self.page_size_bytes > self.resized(self.block_size).page_size_bytes

    @property
    def stride_alignment(self) -> int:
        """Bytes of a kernel block, if blocks are split into several; else 1.

        Or those of `stride_tokens`, where kernels ask for them.
        """
        if self.stride_tokens is not None:
            return int(self.token_bytes * self.stride_tokens)
        if self.longest_kernel_block is None:
            return 1
        kernel = gcd(self.longest_kernel_block, self.block_size)
        return 1 if kernel == self.block_size else self.resized(kernel).page_size_bytes

    def resized(self, block_size: int) -> KVCacheSpec:
        """The same cache in blocks of another length."""
        page = round_up(int(self.token_bytes * block_size), self.page_alignment)
        return replace(self, block_size=block_size, page_size_bytes=page)

    def blocks_per_request(self, length: int, in_flight_tokens: int) -> int:
        """Blocks that one request of `length` tokens can come to hold."""
        if self.fixed_blocks is not None:
            return self.fixed_blocks
        most = self.most_tokens(in_flight_tokens)
        tokens = ceil_div(length, self.context_ranks) if most is None else min(most, length)
        return ceil_div(tokens, self.block_size) + self.spare_blocks

    @property
    def fixed_blocks(self) -> int | None:
        """Blocks of a request whatever its length; None where that counts."""
        match self.kind:
            case SpecKind.MAMBA:
                return self.state_blocks
            case SpecKind.CIRCULAR:
                return 1
            case SpecKind.CROSS:
                return ceil_div(self.encoder_tokens, self.block_size)
        return None

    def most_tokens(self, in_flight_tokens: int) -> int | None:
        """Tokens that a request keeps at most; None: all.

        Blocks behind a window are freed once a step is settled, so what is in flight is held too.
        """
        match self.kind:
            case SpecKind.SLIDING | SpecKind.SLIDING_MLA:
                assert self.window is not None
                return self.window - 1 + self.retained_tokens + in_flight_tokens
            case SpecKind.CHUNKED:
                assert self.window is not None
                return self.window + in_flight_tokens
        return None

    @property
    def spare_blocks(self) -> int:
        """Blocks beside those of the tokens: a window may begin inside a block."""
        return 1 if self.kind in (SpecKind.SLIDING, SpecKind.SLIDING_MLA) else 0


def attention_spec(
    attention: Attention,
    ranks: int,
    kv_cache_dtype: str,
    dtype_bytes: int,
    block_size: int,
    page_alignment: int = 1,
) -> KVCacheSpec:
    """The spec of an attention layer on one of `ranks` tensor-parallel ranks.

    Its page is rounded up to `page_alignment` bytes.
    """
    heads = local_kv_heads(attention, ranks)
    per_token = heads * cached_token_bytes(attention, kv_cache_dtype, dtype_bytes)
    page = int(per_token * (block_size // attention.compression))
    return KVCacheSpec(
        _SPECS[attention.kind],
        block_size,
        round_up(page, page_alignment),
        heads,
        attention.head_size,
        attention.head_size_v,
        attention.window,
        token_bytes=per_token / attention.compression,
        page_alignment=page_alignment,
    )


def one_type(specs: list[KVCacheSpec]) -> bool:
    """Whether all need the same number of blocks, whatever their width."""
    first = specs[0]
    if any(spec.block_size != first.block_size for spec in specs):
        return False
    match first.kind:
        case SpecKind.FULL | SpecKind.MLA:
            return all(spec.kind in WHOLE for spec in specs)
        case SpecKind.MAMBA:
            return all(
                spec.kind is SpecKind.MAMBA
                and spec.page_size_bytes == first.page_size_bytes
                and spec.state_blocks == first.state_blocks
                and spec.checkpoint_alignment == first.checkpoint_alignment
                for spec in specs
            )
        case _:
            return all(spec.kind is first.kind and spec.window == first.window for spec in specs)


def ring_tokens(group: int, speculative: int) -> int:
    """Tokens of a circular buffer for a group that is not yet full, and for what is drafted."""
    groups = ceil_div(group + speculative, group)
    return group << (groups - 1).bit_length()


def local_kv_heads(attention: Attention, ranks: int) -> int:
    """KV heads of one rank; they are replicated where ranks outnumber them."""
    if attention.kind in _LATENT:
        return 1
    heads = attention.num_kv_heads
    if ranks >= heads and ranks % heads == 0:
        return 1
    if heads % ranks == 0:
        return heads // ranks
    raise Indivisible(f"{heads} KV heads cannot be shared by tensor parallel size ({ranks})")


def state_bytes(state: RecurrentState, ranks: int, dtype_bytes: int, speculative: int = 0) -> int:
    """Bytes of one layer's recurrent state on one rank.

    `speculative` draft tokens lengthen the memory of the convolution, save in Mamba-1. Where the
    groups do not divide over the ranks, every rank gets one of its own.
    """
    groups = state.groups
    if groups % ranks:
        groups = ranks
    channels = state.conv_channels + groups * state.group_channels
    conv = divide("the channels of the convolution", channels, ranks)
    heads = divide("the heads of the recurrent state", state.heads, ranks)
    width = DTYPE_BYTES[state.dtype] if state.dtype is not None else dtype_bytes
    columns = state.conv_kernel - 1
    if state.kind is not StateKind.MAMBA1:
        columns += speculative
    return conv * columns * dtype_bytes + heads * state.head_elements * width


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """`a` to the next multiple of `b`."""
    return ceil_div(a, b) * b
