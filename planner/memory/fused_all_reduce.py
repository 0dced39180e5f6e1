"""The workspace of FlashInfer's all-reduce, fused with the normalization behind it.

vLLM compiles it into the layers on Hopper and the B200 family (`enable_allreduce_rms_fusion` in
config/vllm.py). On every rank it takes a buffer of the largest message that it reduces, from each
rank, and three more for low latency (`trtllm_create_ipc_workspace_for_all_reduce_fusion` in
FlashInfer), outside of torch's allocator.
"""

from __future__ import annotations

from typing import Final

from model_cards.card import ModelCard
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts
from planner.engine.releases import Release

_MIB: Final = 2**20
_BUFFERS: Final = 4
# Largest message by compute capability and ranks (`FI_ALLREDUCE_FUSION_MAX_SIZE_MB`).
_LARGEST_MIB: Final[dict[tuple[int, int], dict[int, float]]] = {
    (9, 0): {2: 64, 4: 2, 8: 0.5},
    (10, 0): {2: 64, 4: 32, 8: 1},
    (10, 3): {2: 64, 4: 64, 8: 2},
}
_ELEMENT: Final = 2  # bytes; fp32 is reduced otherwise


def fused_all_reduce_bytes(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> int:
    """Bytes on each rank; 0 where all-reduces are not fused."""
    given, ranks = config.given, config.given.tensor_parallel_size
    if (
        device.capability is None
        or given.enforce_eager
        or config.dtype_bytes != _ELEMENT
        or not release.fact("all_reduce_fused")
    ):
        return 0
    alone = given.pipeline_parallel_size == given.data_parallel_size == 1
    if not alone and not release.fact("all_reduce_fused_in_stages"):
        return 0
    largest = _LARGEST_MIB.get(device.capability, {}).get(ranks, 0) * _MIB
    token = card.hidden_size * _ELEMENT
    tokens = min(largest // token, config.max_num_batched_tokens)
    return round(_BUFFERS * ranks * tokens * token)
