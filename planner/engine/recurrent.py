"""Recurrent layers as vLLM runs them: which kernels keep states inside a prefill, and where.

With prefix caching a hybrid model keeps states at block boundaries (cache mode `align`). Kernels
that can hand out a state from the middle of a prefill get one more block for it.
"""

from __future__ import annotations

from typing import Final

from model_cards.caches import RecurrentState, StateKind
from planner.engine.device import DeviceFacts, Platform
from planner.engine.releases import Release

_FLASHINFER_GDN_ALIGNMENT: Final = 64  # FLASHINFER_GDN_CHECKPOINT_ALIGNMENT
_BLACKWELL_KEY_SIZE: Final = 128  # the only one FlashInfer's kernel takes there


def checkpoint_alignment(
    state: RecurrentState, device: DeviceFacts, release: Release
) -> int | None:
    """Tokens between states that the prefill kernel can hand out; None if it hands out none."""
    match state.kind:
        case StateKind.MAMBA2:
            return 1
        case StateKind.GDN if release.fact("gdn_prefill_checkpoints"):
            return _FLASHINFER_GDN_ALIGNMENT if _flashinfer_gdn(state, device) else None
    return None


def state_blocks(
    state: RecurrentState,
    device: DeviceFacts,
    release: Release,
    *,
    align: bool,
    speculative: int = 0,
) -> int:
    """Blocks that one request holds of a recurrent layer."""
    if not align:
        return 1 + speculative
    return 2 + speculative + (checkpoint_alignment(state, device, release) is not None)


def _flashinfer_gdn(state: RecurrentState, device: DeviceFacts) -> bool:
    """Whether FlashInfer's prefill kernel of the gated delta net runs on this GPU."""
    if device.platform is not Platform.CUDA or device.capability is None:
        return False
    if device.capability == (9, 0):
        return True
    return device.capability[0] in (10, 12) and state.key_size == _BLACKWELL_KEY_SIZE
