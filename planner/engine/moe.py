"""Which kernel runs routed experts: it decides how vLLM pads and keeps them.

From vLLM 0.33.0's model_executor/layers/fused_moe/oracle.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from model_cards.modules import Experts
from model_cards.quantization.formats import Unquantized
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4


class MoeKernel(Enum):
    """Families of fused MoE kernels."""

    MARLIN = "Marlin"
    TRITON = "OpenAI's Triton kernels"
    TRTLLM = "FlashInfer TRT-LLM"
    HUMMING = "Humming"


class Tile(Struct, frozen=True):
    """What a kernel rounds the experts' dimensions up to."""

    hidden: int
    intermediate: int


class TritonMxfp4(Struct, frozen=True):
    """How a release keeps MXFP4 experts for OpenAI's Triton kernels on Hopper."""

    side: int = 1  # rows, and bytes of a row, are a multiple of it
    keeps_scales: bool = False  # as loaded, beside those the kernel reads


TRITON_AS_STORED = TritonMxfp4()


_UNPADDED = Tile(1, 1)
_TRTLLM_16BIT = Tile(1, 128)
_TRTLLM_NVFP4 = Tile(256, 64)  # rows of gate and up together are a multiple of 128
_TRTLLM_NVFP4_UNGATED = Tile(256, 128)
_MXFP4_TILES = {
    MoeKernel.MARLIN: Tile(256, 128),
    MoeKernel.TRITON: Tile(1, 64),
    MoeKernel.TRTLLM: Tile(256, 128),
    MoeKernel.HUMMING: Tile(256, 128),  # rows in 256s, inputs in 128s
}


def experts_tile(experts: Experts, capability: tuple[int, int] | None) -> Tile:
    """The tile of 16-bit and NVFP4 experts: TRT-LLM's kernels on the B200 family have one."""
    if capability is None or capability[0] != 10:
        return _UNPADDED
    match experts.format:
        case Unquantized() if experts.trtllm:
            return _TRTLLM_16BIT
        case Nvfp4(quantized_input=True):
            return _TRTLLM_NVFP4 if experts.gated else _TRTLLM_NVFP4_UNGATED
    return _UNPADDED


def runs_trtllm_nvfp4(experts: Experts, capability: tuple[int, int] | None) -> bool:
    """Whether TRT-LLM's kernel for 4-bit inputs and weights runs the experts."""
    quantized = isinstance(experts.format, Nvfp4) and experts.format.quantized_input
    return quantized and capability is not None and capability[0] == 10


def runs_cutlass_blocks(
    experts: Experts, capability: tuple[int, int] | None, *, spread: bool
) -> bool:
    """Whether FlashInfer's CUTLASS kernel runs experts of FP8 blocks.

    On Hopper vLLM takes it where whole experts are `spread` over ranks, else Triton's.
    """
    blocks = isinstance(experts.format, Fp8) and experts.format.granularity is Granularity.BLOCK
    return blocks and capability == (9, 0) and spread


def keeps_activation_parameters(
    experts: Experts, capability: tuple[int, int] | None, *, spread: bool
) -> bool:
    """Whether the kernel keeps limit, slope and offset of the activation for every expert.

    FlashInfer's do, but for TRT-LLM's 16-bit one. On Hopper vLLM takes them only for FP8 blocks
    where whole experts are `spread` over ranks, on SM 12.x neither for FP8 blocks nor for MXFP4.
    """
    if capability is None:
        return False
    match experts.format:
        case Unquantized() if experts.trtllm:
            return capability[0] == 12
        case Fp8(granularity=Granularity.BLOCK):
            return capability[0] == 10 or runs_cutlass_blocks(experts, capability, spread=spread)
        case Mxfp4():
            return capability[0] == 10
        case Unquantized() | Nvfp4() | Mxfp8():
            return capability[0] in (10, 12)
    return False


def mxfp4_kernel(
    weight_format: Mxfp4, capability: tuple[int, int] | None
) -> tuple[MoeKernel, Tile]:
    """The kernel of MXFP4 experts on a GPU, and its tile.

    On Hopper Triton's are for gpt-oss, whose activations stay in 16 bits, and Humming for others.
    """
    if capability is not None and capability[0] == 10:
        kernel = MoeKernel.TRTLLM
    elif capability == (9, 0):
        kernel = MoeKernel.HUMMING if weight_format.quantized_input else MoeKernel.TRITON
    else:
        kernel = MoeKernel.MARLIN
    return kernel, _MXFP4_TILES[kernel]
