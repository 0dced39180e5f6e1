"""DeepSeek V4.1's attention backends, which its model class picks as DeepSeek V4's does.

From vLLM 0.33.0's models/deepseek_v41. The B200 family has records of its own: MXFP8 with the
rotary part in it, and NVFP4 for compressed vectors where the kernel that fuses all of attention
runs. It reads both as rows of the whole cache, so blocks hold whole rows of either.
"""

from __future__ import annotations

from functools import partial
from math import lcm
from typing import Final

from model_cards.caches import Attention, AttentionKind
from planner.engine.backend import NO_BACKEND, AttentionBackend
from planner.engine.kv_cache_dtypes import DS_MLA, MXFP8_DS_MLA, NVFP4_DS_MLA, record_bytes

_PAGE: Final = 576
_PAGE_SM100: Final = 512
_BLOCK: Final = 128
_BLOCK_SM90: Final = 64
_WINDOW_BLOCK: Final = 32
_FUSED_HEADS: Final = 8  # of a group of the output projection, as the fused kernel wants them
_SMALLEST_RING: Final = 8


def deepseek_v41_backend(
    attention: Attention, capability: tuple[int, int] | None, kv_cache_dtype: str, ranks: int
) -> AttentionBackend:
    """The backend of one of the model's caches; none for a KV cache that is not packed."""
    sm100 = capability is not None and capability[0] == 10
    block = _BLOCK_SM90 if capability == (9, 0) else _BLOCK
    backend = partial(
        AttentionBackend,
        page_alignment=_PAGE_SM100 if sm100 else _PAGE,
        block_outermost=True,
    )
    if attention.kind is AttentionKind.INDEXER:
        return backend("DEEPSEEK_V41_INDEXER", (block,), multiples=False)
    if attention.kind is AttentionKind.TAIL:
        return backend("CompressorBackend", (1,), layer_block=_SMALLEST_RING, page_alignment=1)
    fused = sm100 and attention.num_heads // ranks % _FUSED_HEADS == 0
    asked = kv_cache_dtype
    if asked in ("auto", "fp8"):
        asked = NVFP4_DS_MLA if fused else DS_MLA
    if asked != DS_MLA and not (fused and asked == NVFP4_DS_MLA):
        return NO_BACKEND
    window = MXFP8_DS_MLA if sm100 else DS_MLA
    compressed = NVFP4_DS_MLA if asked == NVFP4_DS_MLA else window
    if attention.kind is AttentionKind.SLIDING_MLA:
        row = record_bytes(attention, window)
        rows = lcm(row, record_bytes(attention, compressed))
        return backend(
            "DEEPSEEK_SPARSE_SWA",
            (_WINDOW_BLOCK,),
            kv_cache_dtype=window,
            layer_block=_WINDOW_BLOCK,
            stride_tokens=rows // row if sm100 else None,
        )
    name = _compressed_name(capability, fused=fused)
    return backend(name, (block,), multiples=False, kv_cache_dtype=compressed)


def _compressed_name(capability: tuple[int, int] | None, *, fused: bool) -> str:
    if capability is not None and capability[0] == 12:
        return "FLASHINFER_MLA_SPARSE_DSV41"
    return "FLASHMLA_MEGA_ATTN_DSV41" if fused else "FLASHMLA_SPARSE_DSV41"
