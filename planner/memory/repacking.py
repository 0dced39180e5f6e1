"""What loading changes: the bytes a matrix holds after vLLM repacked it for its kernel.

Which kernel vLLM takes depends on the GPU (model_executor/kernels/linear and fused_moe): Machete
on Hopper and Marlin elsewhere for 4-bit weights, native FP8 where the tensor cores have it,
Marlin's weight-only FP8 where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm
from typing import Final

from model_cards.modules import Experts
from model_cards.quantization.awq import Awq
from model_cards.quantization.formats import (
    Float32WithoutKernel,
    WeightFormat,
    ceil_div,
)
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.gptq import Gptq
from model_cards.quantization.integers import PackedInt
from model_cards.quantization.mxfp4 import GROUP as MXFP4_GROUP
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import GROUP as MXFP8_GROUP
from model_cards.quantization.mxfp8 import Mxfp8
from planner.engine.moe import (
    TRITON_AS_STORED,
    MoeKernel,
    TritonMxfp4,
    experts_tile,
    keeps_activation_parameters,
    mxfp4_kernel,
    runs_trtllm_nvfp4,
)
from planner.memory.parallel import Indivisible

Capability = tuple[int, int]

HOPPER: Final = (9, 0)
ADA: Final = (8, 9)
_MACHETE_GROUPS: Final = frozenset({-1, 64, 128})


def linear_bytes(
    weight_format: WeightFormat,
    inputs: int,
    outputs: Sequence[int],
    dtype_bytes: int,
    capability: Capability | None,
    *,
    batched: bool = False,
) -> int:
    """Bytes of a rank's linear layer after loading; the stored bytes where nothing changes."""
    out = sum(outputs)
    stored = {t.name: t.bytes for t in weight_format.tensors(inputs, outputs, dtype_bytes)}
    match weight_format:
        case Float32WithoutKernel() if not _has_router_kernels(capability):
            return 4 * inputs * out
        case Fp8() if _uses_fp8_marlin(weight_format, capability):
            return _fp8_marlin_bytes(weight_format, inputs, out, dtype_bytes)
        case Fp8(granularity=Granularity.BLOCK):
            # Scales that are powers of two become fp32.
            stored["weight_scale"] *= 4 // weight_format.scale_bytes
        case Mxfp8() if batched:
            if capability is None or capability[0] != 10:
                stored["weight"] *= dtype_bytes  # emulated, in the dtype
        case Mxfp8() if _has_mxfp8(capability):
            stored["weight_scale"] = _swizzled(out, ceil_div(inputs, MXFP8_GROUP))
        case Mxfp8():  # Humming on Hopper, Marlin on others
            hopper = capability == HOPPER
            n, k = humming_tile(out, inputs) if hopper else marlin_tile(out, inputs, MXFP8_GROUP)
            return n * k + n * k // MXFP8_GROUP
        case Fp8(granularity=Granularity.TENSOR):
            # One scale for the fused matrix remains, and one for its input.
            return stored["weight"] + 4 + (4 if weight_format.static_input else 0)
        case Awq() | Gptq() | PackedInt() if not _uses_machete(
            weight_format.group_size, inputs, out, capability
        ):
            return _marlin_bytes(weight_format, inputs, out, dtype_bytes)
        case Awq(zero_point=True):
            # Machete wants zero points unpacked and scaled: one value each in the dtype.
            stored["qzeros"] *= 32 // weight_format.bits * dtype_bytes // 4
        case PackedInt(symmetric=False):
            stored["weight_zero_point"] *= 32 // weight_format.bits * dtype_bytes // 4
    return sum(stored.values())


def experts_bytes(
    experts: Experts,
    count: int,
    intermediate: int,
    dtype_bytes: int,
    capability: Capability | None,
    triton: TritonMxfp4 = TRITON_AS_STORED,
) -> int:
    """Bytes of a rank's routed experts after loading: `count` of them, `intermediate` wide."""
    total = _experts_weights(experts, count, intermediate, dtype_bytes, capability, triton)
    if keeps_activation_parameters(experts, capability, spread=count < experts.count):
        total += count * experts.activation_parameters * 4
    if runs_trtllm_nvfp4(experts, capability):
        # A scale between the matrices; and parameters divided by that of the first.
        total += count * (1 + experts.scaled_parameters) * 4
    return total


def _experts_weights(
    experts: Experts,
    count: int,
    intermediate: int,
    dtype_bytes: int,
    capability: Capability | None,
    triton: TritonMxfp4,
) -> int:
    tile = experts_tile(experts, capability)
    intermediate = ceil_div(intermediate, tile.intermediate) * tile.intermediate
    hidden = ceil_div(experts.hidden, tile.hidden) * tile.hidden
    weight_format, shards = experts.format, len(experts.up_outputs)
    up = (intermediate,) * shards
    biases = (shards * intermediate + hidden) * dtype_bytes if experts.bias else 0
    match weight_format:
        case Fp8(granularity=Granularity.BLOCK):
            block = _shard_block(weight_format.block[1], hidden, intermediate)
            width = intermediate
            scale_bytes = 4
            rows = ceil_div(width, block) * shards  # scales of one group of inputs
            rows_down = ceil_div(hidden, block)
            if capability is not None and capability < ADA:
                # Marlin: tiles of 64, and scales in the dtype for every single output.
                width = ceil_div(width, lcm(64, block)) * lcm(64, block)
                scale_bytes, rows, rows_down = dtype_bytes, shards * width, hidden
            scales = ceil_div(hidden, block) * rows + ceil_div(width, block) * rows_down
            return count * ((shards + 1) * width * hidden + scales * scale_bytes + biases)
        case Fp8():
            return _fp8_experts_bytes(experts, count, intermediate, dtype_bytes, capability)
        case Mxfp4():
            return _mxfp4_experts_bytes(experts, count, intermediate, capability, triton)
        case Gptq() | Awq() | PackedInt():
            return count * (
                _packed_expert_bytes(weight_format, experts, intermediate, dtype_bytes) + biases
            )
    each = weight_format.bytes(hidden, up, dtype_bytes) + weight_format.bytes(
        intermediate, (hidden,), dtype_bytes
    )
    return count * (each + biases)


def _fp8_experts_bytes(
    experts: Experts, count: int, intermediate: int, dtype_bytes: int, capability: Capability | None
) -> int:
    """FP8 experts with scales per tensor or per output channel.

    Marlin expands them to one in the dtype for every output. CUTLASS, which runs gated experts
    with scales per channel on Hopper and the B200 family, keeps three int64 strides an expert;
    FlashInfer's kernel for static inputs, two products of weight and input scales.
    """
    weight_format, hidden, shards = experts.format, experts.hidden, len(experts.up_outputs)
    assert isinstance(weight_format, Fp8)
    channel = weight_format.granularity is Granularity.CHANNEL
    marlin = capability is not None and capability < ADA
    width = ceil_div(intermediate, 64) * 64 if marlin else intermediate
    scales = shards * width + hidden if channel or marlin else 2
    each = (shards + 1) * width * hidden + scales * (dtype_bytes if marlin else 4)
    if experts.bias:
        each += (shards * intermediate + hidden) * dtype_bytes
    if capability is not None and capability >= HOPPER:
        if channel and experts.gated and capability < (11, 0):
            each += 3 * 8
        elif weight_format.static_input:
            each += 2 * 4
    return count * each + (2 * 4 if weight_format.static_input else 0)


def _mxfp4_experts_bytes(
    experts: Experts,
    count: int,
    intermediate: int,
    capability: Capability | None,
    triton: TritonMxfp4,
) -> int:
    """MXFP4 experts, padded for their kernel.

    Triton's layout for Hopper pads the scales' rows to 256 and their groups to 4, in some releases
    the packed weights too (third_party/triton_kernels/tensor_details/layout_details). TRT-LLM keeps
    int64 permutations of all rows, for weights, scales and biases. The biases of both are fp32.
    """
    assert isinstance(experts.format, Mxfp4)
    kernel, tile = mxfp4_kernel(experts.format, capability)
    hidden = ceil_div(experts.hidden, tile.hidden) * tile.hidden
    inner = ceil_div(intermediate, tile.intermediate) * tile.intermediate
    rows = len(experts.up_outputs) * inner
    side = triton.side if kernel is MoeKernel.TRITON else 1
    weights = _packed_bytes(rows, hidden, side) + _packed_bytes(hidden, inner, side)
    bias_bytes = 2 if kernel is MoeKernel.MARLIN else 4
    biases = (rows + hidden) * bias_bytes if experts.bias else 0

    def scales(outputs: int, inputs: int) -> int:
        groups = ceil_div(inputs, MXFP4_GROUP)
        if kernel is not MoeKernel.TRITON:
            return outputs * groups
        loaded = outputs * groups if triton.keeps_scales else 0
        return loaded + ceil_div(outputs, 256) * 256 * ceil_div(groups, 4) * 4

    each = weights + scales(rows, hidden) + scales(hidden, inner) + biases
    permuted = (3 if experts.bias else 2) if kernel is MoeKernel.TRTLLM else 0
    return count * each + permuted * 8 * (rows + hidden)


def _packed_bytes(outputs: int, inputs: int, side: int) -> int:
    """A matrix of two values a byte, both sides a multiple of `side`."""
    return ceil_div(outputs, side) * side * ceil_div(inputs // 2, side) * side


def _shard_block(block: int, hidden: int, intermediate: int) -> int:
    """Side of the scale blocks of a rank's experts.

    Where the checkpoint's blocks straddle ranks, vLLM refines the scales to the largest common
    divisor, of at least 32 (`refine_fp8_moe_block_shape`).
    """
    if intermediate % block == 0:
        return block
    refined = gcd(block, intermediate, hidden)
    if refined < 32:
        raise Indivisible(
            f"the experts' intermediate size per rank ({intermediate}) is not divisible by the "
            f"FP8 weight block ({block})"
        )
    return refined


def _packed_expert_bytes(
    weight_format: Awq | Gptq | PackedInt, experts: Experts, intermediate: int, dtype_bytes: int
) -> int:
    """One expert of packed integers.

    Marlin takes it where whole groups fall on every rank; else the WNA16 kernel does, with
    smaller groups and no zero points of symmetric weights.
    """
    group, hidden = weight_format.group_size, experts.hidden
    up = (intermediate,) * len(experts.up_outputs)
    if group > 0 and intermediate % group:
        while group >= 32 and (intermediate % group or hidden % group):
            group //= 2
        if group < 32:
            raise Indivisible(
                f"the experts' intermediate size per rank ({intermediate}) is not divisible by "
                f"the quantization group ({weight_format.group_size})"
            )
        weights = (len(up) + 1) * intermediate * hidden
        scales = weights // group * dtype_bytes
        zeros = weights // group * weight_format.bits // 8 if _has_zeros(weight_format) else 0
        return weights * weight_format.bits // 8 + scales + zeros
    tensors = (
        *weight_format.tensors(hidden, up, dtype_bytes),
        *weight_format.tensors(intermediate, (hidden,), dtype_bytes),
    )
    stored = sum(tensor.bytes for tensor in tensors if tensor.name != "weight_shape")
    if isinstance(weight_format, PackedInt):
        stored += 2 * 2 * dtype_bytes  # two shapes, which vLLM creates in the model's dtype
    return stored


def _has_zeros(weight_format: Awq | Gptq | PackedInt) -> bool:
    """Whether the kernel needs zero points."""
    if isinstance(weight_format, Awq):
        return weight_format.zero_point
    return not weight_format.symmetric


def _has_router_kernels(capability: Capability | None) -> bool:
    """Whether vLLM has router kernels from 16 bits to fp32 (`GateLinear`): Hopper and B200."""
    return capability is not None and (capability == HOPPER or capability[0] == 10)


def _has_mxfp8(capability: Capability | None) -> bool:
    """Whether FlashInfer multiplies in MXFP8 on this GPU."""
    return capability is not None and capability >= (10, 0)


def _swizzled(rows: int, groups: int) -> int:
    """Scale bytes in tiles of 128 rows with 4 groups each."""
    return ceil_div(rows, 128) * 128 * ceil_div(groups, 4) * 4


def _uses_fp8_marlin(weight_format: Fp8, capability: Capability | None) -> bool:
    """Whether an FP8 linear layer runs weight-only through Marlin on this GPU.

    Below Ada always; on Ada for block scales, which no native kernel takes there.
    """
    if capability is None:
        return False
    if weight_format.granularity is Granularity.BLOCK:
        return capability < HOPPER
    return capability < ADA


def _fp8_marlin_bytes(weight_format: Fp8, inputs: int, outputs: int, dtype_bytes: int) -> int:
    """FP8 after Marlin's repacking: padded weights, scales per channel or per group of inputs."""
    block = weight_format.block[1] if weight_format.granularity is Granularity.BLOCK else -1
    n, k = marlin_tile(outputs, inputs, block)
    groups = ceil_div(k, block) if block > 0 else 1
    input_scale = 4 if weight_format.static_input else 0
    return n * k + groups * n * dtype_bytes + input_scale


def _marlin_bytes(
    weight_format: Awq | Gptq | PackedInt, inputs: int, outputs: int, dtype_bytes: int
) -> int:
    """Packed integers after Marlin's repacking; zero points of symmetric weights are dropped."""
    group = weight_format.group_size
    n, k = marlin_tile(outputs, inputs, group)
    groups = k // group if group > 0 else 1
    total = n * k * weight_format.bits // 8 + groups * n * dtype_bytes
    if _has_zeros(weight_format) and not isinstance(weight_format, Gptq):
        total += groups * n * weight_format.bits // 8
    if isinstance(weight_format, PackedInt):
        total += 16  # weight_shape
    return total


def humming_tile(outputs: int, inputs: int) -> tuple[int, int]:
    """(n, k) after padding for Humming."""
    return ceil_div(outputs, 256) * 256, ceil_div(inputs, 128) * 128


def marlin_tile(outputs: int, inputs: int, group: int) -> tuple[int, int]:
    """(n, k) after padding to the Marlin thread tile that wastes least; groups stay whole.

    The kernel takes n in 64s with k in 128s, or n in 128s with k in 64s (vLLM's
    `marlin_padded_nk`).
    """
    whole = group if group > 0 else 1
    candidates = []
    for tile_n, tile_k in ((64, 128), (128, 64)):
        step = lcm(tile_k, whole)
        candidates.append((ceil_div(outputs, tile_n) * tile_n, ceil_div(inputs, step) * step))
    return min(candidates, key=lambda nk: (nk[0] * nk[1], nk[0] + nk[1]))


def _uses_machete(group: int, inputs: int, outputs: int, capability: Capability | None) -> bool:
    """Hopper's kernel, for the shapes it takes: inputs in 64s, outputs in 128s."""
    return (
        capability == HOPPER
        and group in _MACHETE_GROUPS
        and inputs % 64 == 0
        and outputs % 128 == 0
    )
