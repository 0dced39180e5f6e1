"""What a layer keeps of the tokens before: an attention cache, or a recurrent state."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

# `model_version` of latent vectors other than DeepSeek V2's.
DEEPSEEK_V4: Final = "deepseek_v4"
DEEPSEEK_V41: Final = "deepseek_v41"


class AttentionKind(Enum):
    """Which tokens a layer keeps in its cache."""

    FULL = "full attention"
    SLIDING = "sliding window"
    CHUNKED = "chunked local"
    MLA = "multi-head latent attention"
    SLIDING_MLA = "sliding window of latent vectors"
    INDEXER = "sparse attention's indexer"
    COMPRESSOR = "tokens not yet compressed"
    TAIL = "tokens of the last group"
    ENCODER_ONLY = "encoder-only attention"
    CROSS = "cross-attention"


class Attention(Struct, frozen=True, cache_hash=True):
    """The attention of one layer: what it caches for every token it keeps.

    MLA caches one latent vector of `head_size` for all heads (`num_kv_heads` 1, `head_size_v` 0);
    an indexer one byte vector of `head_size`; a compressor fp32 states of `head_size` for each
    token in its window; a tail the states of each token of a group of `window` that is not yet
    full, in bf16, or as a compressor's. Sparse layers read `index_topk` tokens of the cache, or
    blocks of `sparse_block` tokens; with `own_picks` each keeps where they are in its cache to
    itself. With `sinks` the softmax has one more, learned, term. Encoder-only attention sees the
    whole prompt at once and caches nothing; cross-attention caches what the encoder made of its
    input.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    kind: AttentionKind = AttentionKind.FULL
    window: int | None = None  # tokens, where not all are kept
    index_topk: int | None = None
    sparse_block: int | None = None
    sinks: bool = False
    follows_cache_dtype: bool = True  # else in the model's dtype whatever `--kv-cache-dtype` says
    compression: int = 1  # tokens that one cached vector stands for
    own_picks: bool = False
    model_version: str | None = None  # vLLM's name of a latent format other than DeepSeek V2's


class StateKind(Enum):
    """Families of recurrent layers."""

    MAMBA1 = "Mamba"
    MAMBA2 = "Mamba-2"
    GDN = "gated delta net"
    KDA = "Kimi delta attention"
    SHORT_CONV = "short convolution"
    LINEAR = "linear attention"


class RecurrentState(Struct, frozen=True, cache_hash=True):
    """The state of one recurrent layer: a fixed size for each request, whatever its length.

    A convolution remembers `conv_kernel - 1` inputs of `conv_channels` features, and of
    `group_channels` more for each of `groups` groups (Mamba-2's B and C; a rank holds whole
    groups). `heads` temporal states of `head_elements` elements are kept in `dtype` (None: the
    dtype of the convolution). `exports_states`: vLLM's class can hand out states from the middle
    of a prefill, if its kernel for that runs on the GPU.
    """

    kind: StateKind
    conv_channels: int = 0
    conv_kernel: int = 1
    heads: int = 0
    head_elements: int = 0
    groups: int = 0
    group_channels: int = 0
    key_size: int = 0  # of a head, where keys and values differ
    dtype: str | None = None
    exports_states: bool = True


Cache = Attention | RecurrentState
