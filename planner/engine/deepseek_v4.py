"""DeepSeek V4's attention backends: its model class picks them, not vLLM's selector.

From vLLM 0.33.0's models/deepseek_v4. Caches of four kinds lie side by side in one block. FlashMLA
and, on SM 12.0, FlashInfer keep packed records of fp8 (`fp8_ds_mla`) and pages that are a multiple
of 576 bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from model_cards.caches import Attention, AttentionKind
from planner.engine.backend import NO_BACKEND, AttentionBackend
from planner.engine.kv_cache_dtypes import DS_MLA

_PAGE: Final = 576
_BLOCK: Final = 256  # tokens, compressed or not
_WINDOW_BLOCK: Final = 64
_STATE_BLOCKS: Final = {8: 4, 128: 8}  # window of a compressor -> tokens of its block
_SM120_NAME: Final = "FLASHINFER_MLA_SPARSE_DSV4"
_QUERY_HEADS: Final = (64, 128)
_QUERY_HEADS_SM120: Final = (8, 16, 32, 64, 128)


def deepseek_v4_backend(
    attention: Attention, capability: tuple[int, int] | None, kv_cache_dtype: str
) -> AttentionBackend:
    """The backend of one of the model's caches; none for a KV cache that is not fp8."""
    if kv_cache_dtype != "auto" and not kv_cache_dtype.startswith("fp8"):
        return NO_BACKEND
    backend = partial(
        AttentionBackend, kv_cache_dtype=DS_MLA, page_alignment=_PAGE, block_outermost=True
    )
    match attention.kind:
        case AttentionKind.SLIDING_MLA:
            return backend("DEEPSEEK_SPARSE_SWA", (32,), layer_block=_WINDOW_BLOCK)
        case AttentionKind.COMPRESSOR:
            assert attention.window is not None
            block = _STATE_BLOCKS[attention.window]
            return backend("CompressorBackend", (1,), layer_block=block)
        case AttentionKind.INDEXER:
            return backend("DEEPSEEK_V4_INDEXER", (_BLOCK,), multiples=False)
    name = _SM120_NAME if _is_sm120(capability) else "FLASHMLA_SPARSE_DSV4"
    return backend(name, (_BLOCK,), multiples=False)


def padded_heads(heads: int, capability: tuple[int, int] | None) -> int:
    """Query heads that the sparse kernels work on where a rank has so many."""
    sizes = _QUERY_HEADS_SM120 if _is_sm120(capability) else _QUERY_HEADS
    return next((size for size in sizes if size >= heads), heads)


def _is_sm120(capability: tuple[int, int] | None) -> bool:
    return capability is not None and capability[0] == 12
