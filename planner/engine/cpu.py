"""vLLM's CPU backend: what its platform code decides by itself (platforms/cpu.py of 0.32.0).

No step is scheduled while another runs, and nothing is captured or profiled. MLA runs on AMX
tiles; on a CPU without them by reference kernels, which take whole prompts only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from model_cards.caches import DEEPSEEK_V4, Attention, AttentionKind, RecurrentState, StateKind
from model_cards.card import ModelCard
from planner.engine.backend import AttentionBackend
from planner.engine.device import DeviceFacts, Platform
from planner.engine.kv_cache_dtypes import FP8_KV_DTYPES
from planner.errors import PlanError

# The smallest batch of a model whose prompts are not chunked: DEFAULT_MAX_NUM_BATCHED_TOKENS.
SMALLEST_WHOLE_BATCH: Final = 2048
_KV_CACHE_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
_BLOCK_SIZE: Final = 128
_REFERENCE_MLA_BLOCK: Final = 16
_DEEPSEEK_V4_BLOCK: Final = 256
_TEMPORAL: Final = frozenset({StateKind.MAMBA1, StateKind.MAMBA2, StateKind.GDN, StateKind.KDA})
_PLAIN_KV_DTYPES: Final = frozenset({"auto", "bfloat16", "float16"})


def kv_cache_space(environ: Mapping[str, str]) -> int | None:
    """Bytes that `VLLM_CPU_KVCACHE_SPACE` (GiB) sets the KV cache to; None if it does not."""
    text = environ.get(_KV_CACHE_SPACE, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise PlanError(f"{_KV_CACHE_SPACE} must be a whole number of GiB; it is {text!r}")
    return int(text) * 2**30


def cpu_block_size(card: ModelCard, device: DeviceFacts, asked: int | None) -> int:
    """Tokens of a block of the KV cache."""
    if any(attention.model_version == DEEPSEEK_V4 for attention in card.attention_layers):
        return _DEEPSEEK_V4_BLOCK
    if has_reference_mla(card, device):
        return _REFERENCE_MLA_BLOCK
    return asked if asked is not None else _BLOCK_SIZE


def has_reference_mla(card: ModelCard, device: DeviceFacts) -> bool:
    """Whether it is a CPU and the model's MLA runs there by the reference kernels."""
    if device.platform is not Platform.CPU or device.has_amx:
        return False
    return any(attention.kind is AttentionKind.MLA for attention in card.attention_layers)


def cpu_backend(attention: Attention, device: DeviceFacts) -> AttentionBackend:
    """The attention backend of a layer."""
    if attention.kind is not AttentionKind.MLA:
        return AttentionBackend("CPU_ATTN", (32,))
    if device.has_amx:
        return AttentionBackend("AMX_MLA", (32,))
    return AttentionBackend("CPU_MLA", (_REFERENCE_MLA_BLOCK,), multiples=False)


def cpu_state(state: RecurrentState, device: DeviceFacts) -> RecurrentState:
    """A state as it is kept: in fp32 for the kernels that use AVX-512's BF16 instructions."""
    if "avx512_bf16" not in device.cpu_flags or state.kind not in _TEMPORAL:
        return state
    if state.kind is StateKind.GDN and state.dtype in ("bfloat16", "float16"):
        return state
    return replace(state, dtype="float32")


def cpu_problem(card: ModelCard, kv_cache_dtype: str) -> str | None:
    """Why the CPU backend has no attention kernels for this model and cache; None if it has."""
    if any(attention.index_topk is not None for attention in card.attention_layers):
        return "vLLM has no sparse attention on CPU"
    if kv_cache_dtype not in _PLAIN_KV_DTYPES | FP8_KV_DTYPES:
        return f"vLLM keeps no {kv_cache_dtype} KV cache on CPU"
    return None
