"""Which kernel runs quantized experts: it decides how vLLM pads and keeps them.

From vLLM 0.33.0's model_executor/layers/fused_moe/oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MoeKernel(Enum):
    """Families of fused MoE kernels."""

    MARLIN = "Marlin"
    TRITON = "OpenAI's Triton kernels"
    TRTLLM = "FlashInfer TRT-LLM"


@dataclass(frozen=True, slots=True)
class Tile:
    """What a kernel rounds the experts' dimensions up to."""

    hidden: int
    intermediate: int


_MXFP4_TILES = {
    MoeKernel.MARLIN: Tile(256, 128),
    MoeKernel.TRITON: Tile(1, 64),
    MoeKernel.TRTLLM: Tile(256, 128),
}


def mxfp4_kernel(capability: tuple[int, int] | None) -> tuple[MoeKernel, Tile]:
    """The kernel of gpt-oss's experts on a GPU, and its tile."""
    if capability is not None and capability[0] == 10:
        kernel = MoeKernel.TRTLLM
    elif capability == (9, 0):
        kernel = MoeKernel.TRITON
    else:
        kernel = MoeKernel.MARLIN
    return kernel, _MXFP4_TILES[kernel]
