"""Attention backends and the block sizes they take, as vLLM chooses them.

Backend order and block sizes from vLLM 0.33.0 (platforms/cuda.py, v1/attention/backends);
checked against its own answers in tests/planner/test_oracle.py.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from model_cards.caches import DEEPSEEK_V4, DEEPSEEK_V41, Attention, AttentionKind
from model_cards.card import ModelCard
from planner.engine.backend import NO_BACKEND, AttentionBackend
from planner.engine.cpu import cpu_backend, cpu_problem
from planner.engine.deepseek_v4 import deepseek_v4_backend
from planner.engine.deepseek_v41 import deepseek_v41_backend
from planner.engine.device import DeviceFacts, Platform
from planner.engine.kv_cache_dtypes import DS_MLA, FP8_KV_DTYPES, is_nvfp4, is_turboquant

_FLASHINFER_BLOCKS: Final = (16, 32, 64)
_TRTLLM_BLOCKS: Final = (128, 256, 512, 1024)  # more, where it has TRT-LLM's kernels
_FLASHINFER_HEADS: Final = frozenset({64, 128, 256, 512})
_FA2_HEAD_SIZE: Final = 256  # the largest head FlashAttention 2 takes
_FA4_SPARSE_HEADS: Final = 16
_LATENT_WITHOUT_ROTARY: Final = 512  # GLM-5.3-Flash's
_SPARSE_SM120: Final = frozenset({"auto", "fp8", "fp8_e4m3", DS_MLA})
_SM120: Final = AttentionBackend("FLASHINFER_MLA_SPARSE_SM120", (64,), kv_cache_dtype=DS_MLA)
FA4_FP8: Final = frozenset({"fp8", "fp8_e4m3"})


Backends = dict[Attention, AttentionBackend]

_TRITON_MLA: Final = AttentionBackend("TRITON_MLA")


def attention_backends(
    card: ModelCard,
    device: DeviceFacts,
    kv_cache_dtype: str,
    ranks: int = 1,
    drafts: tuple[Attention, ...] = (),
) -> Backends:
    """The attention backend of every kind of attention in the model, in the order of layers.

    `drafts` are the attention layers of a draft behind the model.
    """
    attentions = dict.fromkeys([*card.attention_kinds, *drafts])
    widest = max((max(a.head_size, a.head_size_v) for a in attentions), default=0)

    def choose(attention: Attention, kv_cache_dtype: str) -> AttentionBackend:
        if attention.model_version == DEEPSEEK_V4:
            return deepseek_v4_backend(attention, device.capability, kv_cache_dtype)
        if attention.model_version == DEEPSEEK_V41:
            return deepseek_v41_backend(attention, device.capability, kv_cache_dtype, ranks)
        if attention.sparse_block is not None:  # one kernel block is one block of the pick
            indexer = attention.kind is AttentionKind.INDEXER
            name = "MINIMAX_M3_SPARSE_INDEXER" if indexer else "MINIMAX_M3_SPARSE"
            return AttentionBackend(name, (attention.sparse_block,), multiples=False)
        if attention.kind is AttentionKind.TAIL:
            return AttentionBackend("KPOOL_TAIL", (1,), block_outermost=True)
        if attention.kind is AttentionKind.INDEXER:
            pages = _indexer_pages(device, attention.compression)
            return AttentionBackend("DEEPSEEK_V32_INDEXER", pages, multiples=False)
        mla = attention.kind is AttentionKind.MLA
        if device.platform is Platform.CPU:
            return cpu_backend(attention, device)
        if device.platform is Platform.ROCM:
            return _rocm_backend(device, attention)
        if device.platform is Platform.XPU or device.capability is None:
            return AttentionBackend("FLASH_ATTN")
        if attention.kind in (AttentionKind.ENCODER_ONLY, AttentionKind.CROSS):
            return _encoder_backend(device.capability, attention, kv_cache_dtype)
        if mla and attention.index_topk is not None:
            heads = attention.num_heads // ranks
            if attention.head_size == _LATENT_WITHOUT_ROTARY:
                return _sparse_nope_backend(device, device.capability, kv_cache_dtype)
            return _sparse_mla_backend(device, device.capability, kv_cache_dtype, heads)
        if mla:
            return _mla_backend(device, device.capability, kv_cache_dtype)
        return _backend(
            device, device.capability, attention, kv_cache_dtype, widest, card.multimodal_prefix
        )

    return {
        attention: choose(attention, kv_cache_dtype)
        if attention.follows_cache_dtype
        else replace(choose(attention, "auto"), kv_cache_dtype="auto")
        for attention in attentions
    }


def backend_problem(
    card: ModelCard, device: DeviceFacts, kv_cache_dtype: str, backends: Backends
) -> str | None:
    """Why no attention backend serves this model with this KV cache here; None if one does."""
    if device.platform is Platform.CPU:
        return cpu_problem(card, kv_cache_dtype)
    if device.platform is not Platform.CUDA or device.capability is None:
        return None
    fp8 = kv_cache_dtype in FP8_KV_DTYPES
    if is_nvfp4(kv_cache_dtype) and device.is_sm100:
        return (
            "an NVFP4 KV cache needs the package flashinfer-cubin on this GPU, or NVIDIA's server "
            "of kernels within reach, which vLLM's wheel alone does not bring"
        )
    if fp8 and card.attention_layers and device.capability < (8, 0):
        return "no attention backend keeps an fp8 KV cache below compute capability 8.0"
    for backend in backends.values():
        if backend is NO_BACKEND:
            return (
                "no attention backend runs this model on compute capability "
                f"{device.capability[0]}.{device.capability[1]} with KV cache dtype "
                f"{kv_cache_dtype}"
            )
        if fp8 and backend.name in ("TRITON_ATTN", "TRITON_MLA") and device.capability < (8, 9):
            return f"{backend.name} needs compute capability 8.9 for an fp8 KV cache"
    return None


def _encoder_backend(
    capability: tuple[int, int], attention: Attention, kv_cache_dtype: str
) -> AttentionBackend:
    """FlashInfer serves neither encoders nor cross-attention: FlashAttention, else Triton."""
    fp8 = kv_cache_dtype in FP8_KV_DTYPES and capability != (9, 0)
    wide = attention.head_size > _FA2_HEAD_SIZE
    if capability < (8, 0) or fp8 or wide:
        return AttentionBackend("TRITON_ATTN")
    return AttentionBackend("FLASH_ATTN")


def _rocm_backend(device: DeviceFacts, attention: Attention) -> AttentionBackend:
    """For latent attention Triton's kernels, or AMD's own, which take blocks of any size."""
    if attention.kind is not AttentionKind.MLA:
        return AttentionBackend("ROCM_ATTN")
    if attention.index_topk is not None:
        return AttentionBackend("ROCM_AITER_MLA_SPARSE")
    return AttentionBackend("ROCM_AITER_MLA", (1,)) if device.aiter_mla else _TRITON_MLA


def _mla_backend(
    device: DeviceFacts, capability: tuple[int, int], kv_cache_dtype: str
) -> AttentionBackend:
    if device.is_sm100:
        return AttentionBackend("FLASHINFER_MLA", (32, 64), multiples=False)
    if capability == (9, 0):
        if kv_cache_dtype in FP8_KV_DTYPES:
            return AttentionBackend("FLASHMLA", (64,), multiples=False)
        return AttentionBackend("FLASH_ATTN_MLA")
    return _TRITON_MLA


def _indexer_pages(device: DeviceFacts, compression: int) -> tuple[int, ...]:
    """Tokens of DeepGEMM's pages of 32 or 64 keys; the class for single tokens takes 64 alone."""
    small = device.capability is not None and device.capability[0] != 12
    if compression == 1 or not small:
        return (64 * compression,)
    return (32 * compression, 64 * compression)


def _sparse_nope_backend(
    device: DeviceFacts, capability: tuple[int, int], kv_cache_dtype: str
) -> AttentionBackend:
    """Backends of DSA for latent vectors without a rotary part; their blocks lie rows apart."""
    if capability[0] == 12 and kv_cache_dtype in _SPARSE_SM120:
        return replace(_SM120, stride_tokens=64)
    if device.is_sm100 and kv_cache_dtype != DS_MLA:
        return AttentionBackend("FLASHINFER_MLA_SPARSE", (32,), stride_tokens=32)
    if capability == (9, 0) and kv_cache_dtype in ("auto", "bfloat16", "fp8", "fp8_e4m3"):
        return AttentionBackend("FLASHINFER_MLA_SPARSE_SM90", (64,), stride_tokens=1)
    return NO_BACKEND


def _sparse_mla_backend(
    device: DeviceFacts, capability: tuple[int, int], kv_cache_dtype: str, local_heads: int
) -> AttentionBackend:
    """Backends of DSA; some keep their own layout of 656 bytes a token whatever fp8 was asked."""
    quantized = kv_cache_dtype in FP8_KV_DTYPES or kv_cache_dtype == DS_MLA
    if device.is_sm100:
        if quantized:
            return AttentionBackend("FLASHINFER_MLA_SPARSE", (32,))
        if local_heads <= _FA4_SPARSE_HEADS:
            return AttentionBackend("FLASH_ATTN_MLA_SPARSE_FA4", (64,))
        return AttentionBackend("FLASHMLA_SPARSE", (64,))
    if capability[0] == 12 and kv_cache_dtype in _SPARSE_SM120:
        return _SM120
    if capability == (9, 0):
        if not quantized:
            return AttentionBackend("FLASH_ATTN_MLA_SPARSE", (64,))
        if kv_cache_dtype in ("fp8", DS_MLA):
            return AttentionBackend("FLASHMLA_SPARSE", (64,), kv_cache_dtype=DS_MLA)
        if kv_cache_dtype == "fp8_e4m3":
            return AttentionBackend("FLASHINFER_MLA_SPARSE_SM90", (64,))
    return NO_BACKEND


def _backend(
    device: DeviceFacts,
    capability: tuple[int, int],
    attention: Attention,
    kv_cache_dtype: str,
    widest: int,
    mm_prefix: bool,
) -> AttentionBackend:
    """FlashInfer on the B200 family, else FlashAttention, else FlashInfer, else Triton."""
    flash_attention_4 = capability == (9, 0) or device.is_sm100
    if is_turboquant(kv_cache_dtype):
        return AttentionBackend("TURBOQUANT", (16, 32, 64, 128), multiples=False)
    triton = AttentionBackend("TRITON_ATTN")
    blocks = _FLASHINFER_BLOCKS + (_TRTLLM_BLOCKS if device.is_sm100 else ())
    flashinfer = AttentionBackend("FLASHINFER", blocks, multiples=False)
    if kv_cache_dtype.endswith("_per_token_head") or capability < (8, 0):
        return triton
    if attention.head_size_v != attention.head_size:  # the model's class asks for these
        return AttentionBackend(f"{'FLASH' if flash_attention_4 else 'TRITON'}_ATTN_DIFFKV")
    if widest > _FA2_HEAD_SIZE and not flash_attention_4:
        return triton  # for all layers, also those of narrower heads
    # FlashAttention 4 reads an fp8 cache of wide heads in pages of 64 tokens.
    pages = (64,) if attention.head_size > _FA2_HEAD_SIZE and kv_cache_dtype in FA4_FP8 else (16,)
    if mm_prefix and flash_attention_4:  # Triton for batches with images, the other without
        name = "TRITON_FLASHINFER" if device.is_sm100 else "TRITON_FLASH_ATTN"
        return AttentionBackend(name, pages, multiples=pages == (16,))
    if mm_prefix:
        return triton
    if attention.sinks:  # FlashAttention 3 and 4 have them, 2 has not
        return AttentionBackend("FLASH_ATTN") if flash_attention_4 else triton
    takes_flashinfer = attention.head_size in _FLASHINFER_HEADS
    if is_nvfp4(kv_cache_dtype):
        misread = attention.head_size == 64 and not device.is_sm100
        return flashinfer if takes_flashinfer and not misread else NO_BACKEND
    if device.is_sm100 and takes_flashinfer:
        return flashinfer
    if kv_cache_dtype in FP8_KV_DTYPES and (capability != (9, 0) or kv_cache_dtype == "fp8_e5m2"):
        return flashinfer if takes_flashinfer else triton
    return AttentionBackend("FLASH_ATTN", pages, multiples=pages == (16,))
