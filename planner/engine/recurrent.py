"""Recurrent layers as vLLM runs them: which kernels keep states inside a prefill, and where.

With prefix caching a hybrid model keeps states at block boundaries (cache mode `align`). Kernels
that can hand out a state from the middle of a prefill get one more block for it. KDA's kernels as
vLLM 0.33.0 chooses them (models/kimi_k3/nvidia/kda.py).
"""

from __future__ import annotations

from typing import Final

from model_cards.caches import RecurrentState, StateKind
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform

_FLASHINFER_GDN_ALIGNMENT: Final = 64  # FLASHINFER_GDN_CHECKPOINT_ALIGNMENT
_BLACKWELL_KEY_SIZE: Final = 128  # the only one FlashInfer's kernel takes there
_FLASHKDA_ALIGNMENT: Final = 16
_KDA_HEAD_SIZE: Final = 128  # of FlashKDA and of the fused decode kernels
_KDA_CONV_KERNEL: Final = 4
_FUSED_DECODE_HEADS: Final = frozenset({12, 24, 48, 96})  # of one rank
_FUSED_DRAFTING_HEADS: Final = _FUSED_DECODE_HEADS | {32}
_FUSED_DRAFT_TOKENS: Final = range(1, 8)


def checkpoint_alignment(
    state: RecurrentState, device: DeviceFacts, config: ResolvedConfig
) -> int | None:
    """Tokens between states that the prefill kernel can hand out; None if it hands out none."""
    match state.kind:
        case StateKind.MAMBA2:
            return 1
        case StateKind.GDN if config.release.fact("gdn_prefill_checkpoints"):
            return _FLASHINFER_GDN_ALIGNMENT if _flashinfer_gdn(state, device) else None
        case StateKind.KDA if state.exports_states:
            return _FLASHKDA_ALIGNMENT if _has_kda_kernels(state, device, config) else None
    return None


def state_blocks(state: RecurrentState, device: DeviceFacts, config: ResolvedConfig) -> int:
    """Blocks that one request holds of a recurrent layer."""
    held = 1 + config.speculative_tokens
    if not config.prefix_caching:
        return held
    return held + 1 + (checkpoint_alignment(state, device, config) is not None)


def has_fused_decode(state: RecurrentState, device: DeviceFacts, config: ResolvedConfig) -> bool:
    """Whether one kernel runs the whole decode step of a KDA layer.

    vLLM's own without speculation; FlashInfer's with it, on the B200 family.
    """
    if state.kind is not StateKind.KDA or state.conv_kernel != _KDA_CONV_KERNEL:
        return False
    if not _has_kda_kernels(state, device, config):
        return False
    heads = state.heads // config.given.tensor_parallel_size
    if config.speculative_tokens == 0:
        return heads in _FUSED_DECODE_HEADS
    drafting = heads in _FUSED_DRAFTING_HEADS and config.speculative_tokens in _FUSED_DRAFT_TOKENS
    return device.is_sm100 and state.exports_states and drafting


def _has_kda_kernels(state: RecurrentState, device: DeviceFacts, config: ResolvedConfig) -> bool:
    """Whether the GPU has KDA's kernels: Hopper and both Blackwells, in bfloat16."""
    if device.platform is not Platform.CUDA or device.capability is None:
        return False
    takes = state.key_size == _KDA_HEAD_SIZE and config.dtype == "bfloat16"
    return takes and (device.capability == (9, 0) or device.capability[0] in (10, 12))


def _flashinfer_gdn(state: RecurrentState, device: DeviceFacts) -> bool:
    """Whether FlashInfer's prefill kernel of the gated delta net runs on this GPU."""
    if device.platform is not Platform.CUDA or device.capability is None:
        return False
    if device.capability == (9, 0):
        return True
    return device.capability[0] in (10, 12) and state.key_size == _BLACKWELL_KEY_SIZE
