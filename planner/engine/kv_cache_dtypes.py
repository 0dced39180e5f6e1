"""`--kv-cache-dtype`: bytes of a cached token, for every value of vLLM 0.33.0.

From v1/kv_cache_interface.py and the backends that pack keys and values their own way.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from model_cards.caches import DEEPSEEK_V4, DEEPSEEK_V41, Attention, AttentionKind

FP8_KV_DTYPES: Final = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2"})
DS_MLA: Final = "fp8_ds_mla"
NVFP4_DS_MLA: Final = "nvfp4_ds_mla"
MXFP8_DS_MLA: Final = "mxfp8_ds_mla"  # `fp8_ds_mla` of DeepSeek V4.1 on the B200 family
_WHOLE: Final = frozenset({"auto", "bfloat16", "float16"})
# Bytes of one element, and of one head and token beside its elements.
_PER_ELEMENT: Final = {
    "fp8": (Fraction(1), 0),
    "fp8_e4m3": (Fraction(1), 0),
    "fp8_e5m2": (Fraction(1), 0),
    "fp8_inc": (Fraction(1), 0),
    "fp8_per_token_head": (Fraction(1), 8),  # an fp32 scale for k and one for v
    "int8_per_token_head": (Fraction(1), 8),
    "int4_per_token_head": (Fraction(1, 2), 8),
    "nvfp4": (Fraction(1, 2) + Fraction(1, 16), 0),  # an fp8 scale for every 16
    "nvfp4_4over6": (Fraction(1, 2) + Fraction(1, 16), 0),
    "ultraquant_4bit": (Fraction(1, 2) + Fraction(1, 32), 0),  # a scale byte for every 32
}
# TurboQuant: bits of keys (8 is plain fp8) and of values.
_TURBOQUANT: Final = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
# Octave: bits of keys and values, and whether all keys share one scale.
_OCTAVE: Final = {
    "octave_k3v4": (4, 4, False),
    "octave_k3v3": (4, 3, False),
    "octave_k3v3_compact": (3, 3, True),
}
_OCTAVE_BLOCK: Final = 64
# DeepSeek V4's record of a vector: 448 fp8 values, 7 scales and a byte to fill, 64 rotary values
# in bf16. V4.1's has all 512 in fp8, or in four bits, with a scale for every 32, or 16.
_V4_RECORD: Final = 448 + 7 + 1 + 64 * 2
# Sparse MLA's layouts, by the `model_version`; the first is of a latent vector of 512 and 64
# rotary values.
_RECORDS: Final = {
    None: {DS_MLA: 656, NVFP4_DS_MLA: 352},
    DEEPSEEK_V4: {DS_MLA: _V4_RECORD},
    DEEPSEEK_V41: {
        DS_MLA: _V4_RECORD,
        MXFP8_DS_MLA: 512 + 512 // 32,
        NVFP4_DS_MLA: 512 // 2 + 512 // 16,
    },
}
_FP32_BYTES: Final = 4
_BF16_BYTES: Final = 2


def is_modelled(kv_cache_dtype: str) -> bool:
    """Whether the bytes of this KV cache dtype are known here."""
    known = (_WHOLE, _PER_ELEMENT, _TURBOQUANT, _OCTAVE, _RECORDS[None])
    return any(kv_cache_dtype in each for each in known)


def is_packed(kv_cache_dtype: str) -> bool:
    """Whether keys and values share a slot, and the outermost layers stay in 16 bit."""
    return kv_cache_dtype in _TURBOQUANT or kv_cache_dtype == "ultraquant_4bit"


def is_nvfp4(kv_cache_dtype: str) -> bool:
    """Whether it is FlashInfer's 4-bit cache."""
    return kv_cache_dtype in ("nvfp4", "nvfp4_4over6")


def is_turboquant(kv_cache_dtype: str) -> bool:
    """Whether TurboQuant's backend keeps it."""
    return kv_cache_dtype in _TURBOQUANT


def cached_token_bytes(attention: Attention, kv_cache_dtype: str, dtype_bytes: int) -> Fraction:
    """Bytes that one KV head of a layer caches at once (of one latent vector for MLA)."""
    elements = attention.head_size + attention.head_size_v
    if attention.kind is AttentionKind.INDEXER:
        return Fraction(elements)
    if attention.kind in (AttentionKind.COMPRESSOR, AttentionKind.TAIL):
        in_bf16 = attention.kind is AttentionKind.TAIL and attention.model_version is None
        return Fraction(elements * (_BF16_BYTES if in_bf16 else _FP32_BYTES))
    if attention.model_version is not None or kv_cache_dtype in _RECORDS[None]:
        return Fraction(record_bytes(attention, kv_cache_dtype))
    if kv_cache_dtype in _TURBOQUANT:
        keys, values = _TURBOQUANT[kv_cache_dtype]
        slot = attention.head_size if keys == 8 else _bytes(attention.head_size, keys) + 2
        slot += _bytes(attention.head_size_v, values) + 4  # a norm, or scale and zero, in fp16
        return Fraction(slot + slot % 2)
    if kv_cache_dtype in _OCTAVE:
        return Fraction(_octave_bytes(attention, *_OCTAVE[kv_cache_dtype]))
    if kv_cache_dtype in _PER_ELEMENT:
        each, beside = _PER_ELEMENT[kv_cache_dtype]
        return each * elements + (beside if attention.kind is not AttentionKind.MLA else 0)
    width = 2 if kv_cache_dtype in ("bfloat16", "float16") else dtype_bytes
    return Fraction(elements * width)


def record_bytes(attention: Attention, layout: str) -> int:
    """Bytes of a latent vector as sparse MLA packs it; models of a version always do."""
    records = _RECORDS[attention.model_version]
    return records.get(layout, records[DS_MLA])


def _bytes(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)


def _octave_bytes(attention: Attention, keys: int, values: int, compact: bool) -> int:
    """Rotary keys have four bits, others three; taken as all rotary."""
    size = attention.head_size
    scales = (1 if compact else size // _OCTAVE_BLOCK) + 1
    slot = size * keys // 8 + size * values // 8 + 2 * scales
    unit = 4 if compact else 8
    return -(-slot // unit) * unit
