"""Workspaces of the fused kernels that run routed experts.

Two of them: every token once for each expert it visits, as wide as the hidden size or the expert's
own (`workspace_shapes` of the kernels in model_executor/layers/fused_moe). Layers of 4-bit integers
called Marlin's kernels by themselves in older releases: one buffer so wide and one of the expert's
own width (`fused_marlin_moe`), gone after each layer. TRT-LLM's kernels on the B200 family take
theirs from FlashInfer, gone with the layer too, and so does FlashInfer's CUTLASS kernel on Hopper,
which leaves one of vLLM's, for what it puts out. Kernels that multiply quantized activations
quantize the tokens besides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct

from model_cards.card import ModelCard
from model_cards.modules import Experts
from model_cards.quantization.awq import Awq
from model_cards.quantization.formats import Unquantized
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.gptq import Gptq
from model_cards.quantization.integers import PackedInt
from model_cards.quantization.mxfp4 import Mxfp4
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts
from planner.engine.moe import (
    MoeKernel,
    mxfp4_kernel,
    runs_cutlass_blocks,
    runs_trtllm_nvfp4,
)
from planner.engine.releases import Release
from planner.memory.constants import constant
from planner.quantity import Basis, Quantity

_FIRST_WITH_FP8: Final = (8, 9)
# Rows of a tile of TRT-LLM's kernels (`mBaseSupportedTileNums`), and bits of an element with its
# scale: one of 32 bits for 128, one of 8 bits for 16.
_SMALLEST_TILE: Final = 8
_LARGEST_FP8_TILE: Final = 128
_LARGEST_FP4_TILE: Final = 256
_FP8_BITS: Final = 8.25
_FP4_BITS: Final = 4.5
_FLASHINFER_BAND: Final = 0.1  # the tile of TRT-LLM's kernels is chosen as they are tuned
# Formats as the fact `marlin_called_by` names them.
_MARLIN_FORMATS: Final = {"awq": Awq, "gptq": Gptq, "packed": PackedInt}


class MoeWorkspaces(Struct, frozen=True):
    """What routed experts need of a rank for a full batch."""

    size: Quantity  # bytes of the workspaces
    kept: bool = False  # from one layer and pass to the next
    beside: Quantity = Quantity.exact(0)  # bytes of quantized tokens, and of a kernel's own buffers


_NONE: Final = MoeWorkspaces(Quantity.exact(0))


def moe_workspaces(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> MoeWorkspaces:
    """The workspaces for a full batch on one rank; empty for kernels that bring their own."""
    experts = _routed(card)
    if experts is None or _without_workspaces(experts, device):
        return _NONE
    share = experts.intermediate
    tokens = config.max_num_batched_tokens
    chunk = release.fact("moe_chunk_tokens")
    if not isinstance(experts.format, (Unquantized, Fp8)):
        chunk = None  # Marlin's kernels take a batch whole
    rows = experts.active * (min(tokens, chunk) if chunk is not None else tokens)
    if not config.given.enable_expert_parallel:
        share //= config.given.tensor_parallel_size
    if release.fact("moe_trtllm_on_sm100") and device.is_sm100:
        taken = _trtllm(experts, tokens, share, device)
        if taken is not None:
            return taken
    up = share * len(experts.up_outputs)
    if release.fact("moe_cutlass_on_hopper") and runs_cutlass_blocks(
        experts, device.capability, spread=_is_spread(config)
    ):
        put_out = Quantity.exact(tokens * experts.hidden * config.dtype_bytes)
        buffers = _cutlass(experts, rows, share, up, config.dtype_bytes)
        return MoeWorkspaces(put_out, release.fact("moe_workspaces_kept"), buffers)
    factor = constant("moe_workspaces", release)
    if _calls_marlin(experts, release):
        size = rows * (max(up, experts.hidden) + share) * config.dtype_bytes
        return MoeWorkspaces(factor.times(size))
    size = rows * (max(share, experts.hidden) + max(up, experts.hidden)) * config.dtype_bytes
    quantized = 0
    if _quantizes_tokens(experts, device):
        quantized = rows * share + tokens * experts.hidden
    beside = Quantity.exact(quantized)
    return MoeWorkspaces(factor.times(size), release.fact("moe_workspaces_kept"), beside)


def _is_spread(config: ResolvedConfig) -> bool:
    """Whether ranks hold whole experts, some each, and no LoRA asks for Triton's kernel."""
    given = config.given
    ranks = given.tensor_parallel_size * given.data_parallel_size
    return given.enable_expert_parallel and ranks > 1 and not given.enable_lora


def _cutlass(experts: Experts, rows: int, share: int, up: int, dtype_bytes: int) -> Quantity:
    """What FlashInfer takes for its CUTLASS kernel on FP8 blocks, for all rows whatever the rank.

    Rows of the hidden size, and of gate and up; and the rows that a product starts from in FP8,
    with an fp32 scale for 128 (`getWorkspaceDeviceBufferSizes` in
    csrc/fused_moe/cutlass_backend/cutlass_fused_moe_kernels.cuh, `getWorkspaceSizeBase` in
    fp8_blockscale_gemm.cu). Its tables of indices are some MiB.
    """
    wide = max(experts.hidden, share)
    size = rows * (wide + up) * dtype_bytes + rows * wide * _FP8_BITS / 8
    source = "buffers of FlashInfer's CUTLASS kernel"
    return Quantity.within(size, _FLASHINFER_BAND, Basis.ESTIMATED, source)


def _trtllm(experts: Experts, tokens: int, share: int, device: DeviceFacts) -> MoeWorkspaces | None:
    """What FlashInfer takes for TRT-LLM's kernels, with `share` features of each expert.

    The products of gate and up, in FP8 with what becomes of them beside them, in FP4 already
    multiplied; and 16-bit rows of the hidden size (`prepare_moe` in
    csrc/trtllm_fused_moe_kernel_launcher.cu). None for formats that they do not run.
    """
    if isinstance(experts.format, Fp8) and experts.format.granularity is Granularity.BLOCK:
        largest, bits, features = _LARGEST_FP8_TILE, _FP8_BITS, len(experts.up_outputs) + 1
    elif runs_trtllm_nvfp4(experts, device.capability):
        largest, bits, features = _LARGEST_FP4_TILE, _FP4_BITS, 1
    else:
        return None
    inner = features * share * bits / 8
    rows = _padded_rows(tokens * experts.active, experts.count, largest)
    size = rows * (inner + experts.hidden * 2)
    inputs = round(tokens * experts.hidden * bits / 8)
    source = "buffers of TRT-LLM's kernels"
    return MoeWorkspaces(
        Quantity.within(size, _FLASHINFER_BAND, Basis.ESTIMATED, source),
        beside=Quantity.exact(inputs),
    )


def _padded_rows(rows: int, experts: int, largest: int) -> int:
    """Rows of tiles that hold them however they are spread (`getMaxNumCtasInBatchDim`)."""
    tile = _SMALLEST_TILE
    while tile < largest and tile * experts < rows:
        tile *= 2
    filled = min(experts, rows)
    return (filled + (rows - filled) // tile) * tile


def _calls_marlin(experts: Experts, release: Release) -> bool:
    """Whether the experts' layer calls Marlin's kernels itself, without shared workspaces."""
    named = release.fact("marlin_called_by")
    return isinstance(experts.format, tuple(_MARLIN_FORMATS[each] for each in named))


def _quantizes_tokens(experts: Experts, device: DeviceFacts) -> bool:
    """Whether the kernel multiplies quantized activations, not 16-bit ones by unpacked weights."""
    if isinstance(experts.format, Fp8):
        return device.capability is not None and device.capability >= _FIRST_WITH_FP8
    return bool(getattr(experts.format, "quantized_input", False))


def _without_workspaces(experts: Experts, device: DeviceFacts) -> bool:
    """OpenAI's Triton kernels, and TRT-LLM's for MXFP4, bring their own."""
    if not isinstance(experts.format, Mxfp4):
        return False
    kernel, _ = mxfp4_kernel(experts.format, device.capability)
    return kernel in (MoeKernel.TRITON, MoeKernel.TRTLLM)


@lru_cache(maxsize=256)
def _routed(card: ModelCard) -> Experts | None:
    """The routed experts of the first MoE layer."""
    for layer, _ in card.different_layers:
        for module in layer.modules:
            if isinstance(module, Experts):
                return module
    return None
