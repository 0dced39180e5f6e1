"""Attention backend, block size and bytes of a cached token, as vLLM chooses them.

Backend order and block sizes from vLLM 0.33.0 (platforms/cuda.py, v1/attention/backends);
checked against its own answers in tests/planner/test_oracle.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from model_cards.card import Attention, AttentionKind
from planner.engine.device import DeviceFacts, Platform

_DEFAULT_BLOCK: Final = 16
_CPU_BLOCK: Final = 128
# Bytes of one element, and of one head and token beside its elements.
_PER_ELEMENT: Final = {
    "fp8": (Fraction(1), 0),
    "fp8_e4m3": (Fraction(1), 0),
    "fp8_e5m2": (Fraction(1), 0),
    "fp8_per_token_head": (Fraction(1), 8),  # an fp32 scale for k and one for v
    "int8_per_token_head": (Fraction(1), 8),
    "int4_per_token_head": (Fraction(1, 2), 8),
}
FP8_KV_DTYPES: Final = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2"})


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """The backend vLLM picks, with the block size it gives the cache."""

    name: str
    block_size: int


def is_modelled(kv_cache_dtype: str) -> bool:
    """Whether the bytes of this KV cache dtype are known here."""
    return kv_cache_dtype in ("auto", "bfloat16", "float16") or kv_cache_dtype in _PER_ELEMENT


def cached_token_bytes(attention: Attention, kv_cache_dtype: str, dtype_bytes: int) -> Fraction:
    """Bytes of one token for one KV head of a layer (of the latent vector for MLA)."""
    elements = attention.head_size + attention.head_size_v
    if kv_cache_dtype in _PER_ELEMENT:
        each, beside = _PER_ELEMENT[kv_cache_dtype]
        return each * elements + (beside if attention.kind is not AttentionKind.MLA else 0)
    width = 2 if kv_cache_dtype in ("bfloat16", "float16") else dtype_bytes
    return Fraction(elements * width)


def choose_backend(
    device: DeviceFacts, kind: AttentionKind, kv_cache_dtype: str, block_size: int | None
) -> AttentionBackend:
    """The attention backend for a layer kind, and its block size unless one was asked for."""
    name, block = _backend(device, kind, kv_cache_dtype)
    return AttentionBackend(name, block_size or block)


def fp8_kv_cache_problem(device: DeviceFacts, kind: AttentionKind) -> str | None:
    """Why this device cannot keep an fp8 KV cache; None if it can."""
    if device.platform is not Platform.CUDA or device.capability is None:
        return None
    if device.capability < (8, 0):
        return "no attention backend keeps an fp8 KV cache below compute capability 8.0"
    if kind is AttentionKind.MLA and device.capability < (8, 9):
        return "Triton MLA needs compute capability 8.9 for an fp8 KV cache"
    return None


def _backend(device: DeviceFacts, kind: AttentionKind, kv_cache_dtype: str) -> tuple[str, int]:
    if device.platform is Platform.CPU:
        if kind is AttentionKind.MLA:
            return "CPU_MLA", _DEFAULT_BLOCK
        return "CPU_ATTN", _CPU_BLOCK
    if device.platform is Platform.ROCM:
        return "ROCM_ATTN", _DEFAULT_BLOCK
    if device.platform is Platform.XPU or device.capability is None:
        return "FLASH_ATTN", _DEFAULT_BLOCK
    capability, fp8 = device.capability, kv_cache_dtype in FP8_KV_DTYPES
    if kind is AttentionKind.MLA:
        if device.is_sm100:
            return "FLASHINFER_MLA", 32
        if capability == (9, 0):
            return ("FLASHMLA", 64) if fp8 else ("FLASH_ATTN_MLA", _DEFAULT_BLOCK)
        return "TRITON_MLA", _DEFAULT_BLOCK
    if kv_cache_dtype.endswith("_per_token_head") or capability < (8, 0):
        return "TRITON_ATTN", _DEFAULT_BLOCK
    if device.is_sm100:
        return "FLASHINFER", _DEFAULT_BLOCK
    if fp8 and (capability != (9, 0) or kv_cache_dtype == "fp8_e5m2"):
        return "FLASHINFER", _DEFAULT_BLOCK
    return "FLASH_ATTN", _DEFAULT_BLOCK
