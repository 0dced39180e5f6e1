"""Bytes of one matrix in every format, added up by hand from how the tools lay it out."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import llama

from model_cards.config import Config
from model_cards.errors import BadConfig, UnmodelledQuantization
from model_cards.quantization import read_scheme
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat

# q, k and v of a layer fused: 256 inputs, 128 + 64 + 64 outputs, so 65,536 weights.
INPUTS, OUTPUTS = 256, (128, 64, 64)
PATH, PARTS = "model.layers.0.self_attn.qkv_proj", ("q_proj", "k_proj", "v_proj")


def stored_as(settings: dict[str, Any]) -> WeightFormat:
    scheme = read_scheme(Config(llama(quantization_config=settings), "config.json"))
    return scheme.linear(PATH, PARTS)


def group(
    weights: dict[str, Any], inputs: dict[str, Any] | None = None, packing: str = ""
) -> dict[str, Any]:
    """compressed-tensors with one group for all linear layers."""
    one = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": packing,
        "config_groups": {"group_0": one},
    }


def ints(
    bits: int, strategy: str, size: int | None = None, *, symmetric: bool = True
) -> dict[str, Any]:
    return {"num_bits": bits, "type": "int", "strategy": strategy, "group_size": size,
            "symmetric": symmetric}  # fmt: skip


def floats(bits: int, strategy: str, **more: Any) -> dict[str, Any]:
    return {"num_bits": bits, "type": "float", "strategy": strategy, "symmetric": True, **more}


DYNAMIC, STATIC = {"dynamic": True, "num_bits": 8}, {"dynamic": False, "num_bits": 8}
LOCAL = {"dynamic": "local", "num_bits": 4}
PACK = "pack-quantized"


@pytest.mark.parametrize(("dtype_bytes", "size"), [(2, 131_072), (4, 262_144)])
def test_unquantized(dtype_bytes: int, size: int) -> None:
    assert UNQUANTIZED.bytes(INPUTS, OUTPUTS, dtype_bytes) == size


CASES = {
    # fp8: a byte a weight; one fp32 scale a projection: 65536 + 3 x 4.
    "fp8 per tensor": ({"quant_method": "fp8"}, 65_548),
    # And one input scale a projection.
    "fp8 static": ({"quant_method": "fp8", "activation_scheme": "static"}, 65_560),
    # 128 x 128 blocks: rows of blocks 1 + 1 + 1 (64 outputs begin a block each), columns 256 / 128.
    "fp8 block": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 65_536 + 4 * 3 * 2),
    # 64 outputs x 32 inputs: (2 + 1 + 1) x 8 blocks.
    "fp8 odd blocks": ({"quant_method": "fp8", "weight_block_size": [64, 32]}, 65_536 + 4 * 32),
    # AWQ: eight weights an int32, zeros packed alike, 16-bit scales, both for 256 / 128 groups.
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, 32_768 + 4 * 64 + 2 * 512),
    "awq g64": ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, 32_768 + 512 + 2_048),
    "awq one group": ({"quant_method": "awq", "bits": 4, "group_size": -1}, 32_768 + 128 + 512),
    # GPTQ: the same for 4 bits; for 8 four weights an int32, for 3 bits 32 weights in three.
    "gptq int4": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 32_768 + 256 + 1_024),
    "gptq int8": ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 65_536 + 512 + 1_024),
    "gptq int3": ({"quant_method": "gptq", "bits": 3, "group_size": 128}, 24_576 + 192 + 1_024),
    "gptq int2": ({"quant_method": "gptq", "bits": 2, "group_size": 64}, 16_384 + 256 + 2_048),
    "gptq one group": ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 32_768 + 128 + 512),
    # compressed-tensors W4A16: packed weights, 16-bit scales, and the shape (two int64).
    "w4a16": (group(ints(4, "group", 128), packing=PACK), 32_768 + 1_024 + 16),
    "w4a16 channel": (group(ints(4, "channel"), packing=PACK), 32_768 + 512 + 16),
    # Zero points packed along the outputs: 2 groups x 256 x 4 bits.
    "w4a16 asymmetric": (
        group(ints(4, "group", 128, symmetric=False), packing=PACK), 32_768 + 1_024 + 16 + 256
    ),
    "w8a16": (group(ints(8, "channel"), packing=PACK), 65_536 + 512 + 16),
    # 3 and 6 bits: every row of 256 weights is packed for itself, in 24 and 48 words.
    "w3a16": (group(ints(3, "channel"), packing=PACK), 256 * 24 * 4 + 512 + 16),
    "w6a16": (group(ints(6, "channel"), packing=PACK), 256 * 48 * 4 + 512 + 16),
    # W8A8: a byte a weight, an fp32 scale a channel; static: one more for the input.
    "w8a8": (group(ints(8, "channel"), DYNAMIC, "int-quantized"), 65_536 + 1_024),
    "w8a8 tensor": (group(ints(8, "tensor"), DYNAMIC, "int-quantized"), 65_536 + 12),
    "w8a8 static": (group(ints(8, "channel"), STATIC, "int-quantized"), 65_536 + 1_024 + 4),
    "w8a8 static asymmetric": (
        group(ints(8, "channel"), STATIC | {"symmetric": False}, "int-quantized"), 65_536 + 1_032
    ),
    # compressed-tensors FP8 in its three granularities.
    "fp8-dynamic": (group(floats(8, "channel"), DYNAMIC, "float-quantized"), 65_536 + 1_024),
    "fp8-static": (group(floats(8, "tensor"), STATIC, "float-quantized"), 65_536 + 12 + 12),
    "ct fp8 block": (
        group(floats(8, "block", block_structure=[128, 128]), DYNAMIC, "float-quantized"),
        65_536 + 24,
    ),
    # NVFP4: half a byte a weight, an fp8 scale for 16 inputs, fp32 global and input scales.
    "nvfp4": (
        group(floats(4, "tensor_group", group_size=16), LOCAL, "nvfp4-pack-quantized"),
        32_768 + 4_096 + 12 + 12,
    ),
    "nvfp4 w4a16": (
        group(floats(4, "tensor_group", group_size=16), packing="nvfp4-pack-quantized"),
        32_768 + 4_096 + 12,
    ),
    # MXFP4: half a byte a weight, a scale byte for 32 inputs.
    "mxfp4": (
        group(floats(4, "group", group_size=32), packing="mxfp4-pack-quantized"), 32_768 + 2_048
    ),
    # MXFP8: a byte a weight, a scale byte for 32 inputs.
    "ct mxfp8": (
        group(floats(8, "group", group_size=32), DYNAMIC, "mxfp8-quantized"), 65_536 + 2_048
    ),
    "modelopt fp8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, 65_536 + 12 + 12),
    "modelopt fp8 channel": (
        {"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, 65_536 + 1_024
    ),
    "modelopt fp8 block": ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, 65_536 + 24),
    "modelopt nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 32_768 + 4_096 + 24),
    "modelopt nvfp4 w4a16": (
        {"quant_method": "modelopt_fp4", "quant_algo": "W4A16_NVFP4"}, 32_768 + 4_096 + 12
    ),
    "modelopt mxfp8": ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, 65_536 + 2_048),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "size"), CASES.values(), ids=CASES.keys())
def test_bytes_of_a_fused_matrix(settings: dict[str, Any], size: int) -> None:
    assert stored_as(settings).bytes(INPUTS, OUTPUTS, 2) == size


@pytest.mark.parametrize(
    ("settings", "kind", "bits"),
    [
        (CASES["fp8 block"][0], "fp8", 8),
        (CASES["awq"][0], "int4", 4),
        (CASES["gptq int8"][0], "int8", 8),
        (CASES["w4a16"][0], "int4", 4),
        (CASES["w8a8"][0], "w8a8", 8),
        (CASES["fp8-dynamic"][0], "fp8", 8),
        (CASES["nvfp4"][0], "nvfp4", 4),
        (CASES["mxfp4"][0], "mxfp4", 4),
        (CASES["modelopt fp8"][0], "fp8", 8),
    ],
)
def test_kinds(settings: dict[str, Any], kind: str, bits: int) -> None:
    stored = stored_as(settings)
    assert (stored.kind, stored.weight_bits) == (kind, bits)
    assert stored.label


def test_blocks_that_do_not_fill_the_matrix() -> None:
    """300 inputs and outputs of 200 and 100: (2 + 1) x 3 blocks, the last ones partly empty."""
    stored = stored_as(CASES["fp8 block"][0])
    assert stored.bytes(300, (200, 100), 2) == 90_000 + 4 * 9


def test_16_bit_scales_are_as_wide_as_the_models_dtype() -> None:
    """2 groups x 256 outputs of 4 bytes where the model runs in fp32."""
    assert stored_as(CASES["awq"][0]).bytes(INPUTS, OUTPUTS, 4) == 32_768 + 256 + 2_048
    assert stored_as(CASES["w4a16"][0]).bytes(INPUTS, OUTPUTS, 4) == 32_768 + 2_048 + 16
    # Scales of FP8 stay fp32 whatever the model's dtype is.
    assert stored_as(CASES["fp8-dynamic"][0]).bytes(INPUTS, OUTPUTS, 4) == 65_536 + 1_024


def test_tensors_have_their_names_and_counts() -> None:
    stored = stored_as(CASES["gptq int4"][0]).tensors(INPUTS, OUTPUTS, 2)
    assert [(tensor.name, tensor.elements) for tensor in stored] == [
        ("qweight", 8_192), ("qzeros", 64), ("scales", 512)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"quant_method": "awq", "bits": 8}, "bits must be 4"),
        ({"quant_method": "awq", "w_bit": 3}, "w_bit must be 4, the only width of AWQ"),
        ({"quant_method": "awq", "bits": 4, "group_size": 0}, "group_size must be at least 1"),
        ({"quant_method": "awq", "bits": "4"}, "bits must be a whole number; found '4'"),
        ({"quant_method": "awq", "zero_point": 1}, "zero_point must be true or false"),
        ({"quant_method": "gptq", "group_size": 128}, "bits must be a whole number; it is missing"),
        ({"quant_method": "gptq", "bits": 5, "group_size": 128}, "bits must be 2, 3, 4 or 8"),
        ({"quant_method": "gptq", "bits": 4}, "group_size must be a whole number; it is missing"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size must be at least 1"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size must be two"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "at least 1; found [0, 128]"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "a list of whole numbers"),
        ({"quant_method": 8}, "quant_method must be a string; found 8"),
        ({"quant_method": "compressed-tensors"}, "config_groups must be an object"),
        (group({"type": "int"}), "num_bits must be a whole number; it is missing"),
        (group(ints(4, "group", 0), packing=PACK), "group_size must be at least 1"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadConfig) as caught:
        stored_as(settings)
    assert not isinstance(caught.value, UnmodelledQuantization)
    message = str(caught.value)
    assert message.startswith("config.json: quantization_config: ")
    assert problem in message
    assert message.isprintable()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"quant_method": "hqq"}, "quantization 'hqq' is not modelled"),
        ({"quant_method": "modelopt"}, "ModelOpt's unnamed algorithm is not modelled"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "ModelOpt's W4A8_AWQ"),
        (group(ints(1, "channel"), packing=PACK), "1-bit int weights, channel, packed as pack"),
        (group(ints(33, "channel"), packing=PACK), "33-bit int weights"),
        (group(ints(4, "group", 128)), "packed as nothing named: no scheme of vLLM matches"),
        (group(floats(16, "tensor")), "16-bit float weights"),
        (group(floats(8, "group", group_size=64)), "8-bit float weights, group"),
        (
            {
                "quant_method": "gptq",
                "bits": 4,
                "group_size": 128,
                "dynamic": {"+:.*": {"bits": 8}},
            },
            "per-module GPTQ settings",
        ),
    ],
)
def test_settings_that_are_not_modelled(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnmodelledQuantization) as caught:
        stored_as(settings)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("config.json: quantization_config")


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 3000, "[z-a]", "*"])
@pytest.mark.parametrize("place", ["ignore", "targets", "dynamic"])
def test_patterns_that_are_no_regular_expressions(pattern: str, place: str) -> None:
    if place == "dynamic":
        settings: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
        settings["dynamic"] = {f"-:{pattern}": {}}
    else:
        settings = group(ints(4, "group", 128), packing=PACK)
        where = settings if place == "ignore" else settings["config_groups"]["group_0"]
        where[place] = [f"re:{pattern}"]
    with pytest.raises(BadConfig, match="is no regular expression") as caught:
        stored_as(settings)
    assert len(str(caught.value)) < 250
