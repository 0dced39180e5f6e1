"""The usual `quantization_config` of each format people publish.

Stands in for repositories known only by name, format and total. Layouts as the tools write them:
AutoAWQ and GPTQModel defaults, llm-compressor's presets (compressed-tensors `quant_scheme.py`),
ModelOpt's NVFP4 and FP8, the block FP8 of Qwen and DeepSeek.
"""

from __future__ import annotations

from typing import Any, Final


def _compressed_tensors(
    weights: dict[str, Any], inputs: dict[str, Any] | None, packing: str
) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": packing,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", "re:.*mlp.gate$", "re:.*block_sparse_moe.gate$"],
    }


_FP8 = {"num_bits": 8, "type": "float", "symmetric": True}
_INT8 = {"num_bits": 8, "type": "int", "symmetric": True}
_FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
_TOKEN = {"strategy": "token", "dynamic": True}

PRESETS: Final[dict[str, dict[str, Any]]] = {
    "awq": {
        "quant_method": "awq",
        "bits": 4,
        "group_size": 128,
        "zero_point": True,
        "version": "gemm",
        "modules_to_not_convert": ["mlp.gate.", "block_sparse_moe.gate"],
    },
    "gptq-int4": {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 128,
        "desc_act": False,
        "sym": True,
        "dynamic": {"-:.*mlp\\.gate$": {}},
    },
    "gptq-int8": {
        "quant_method": "gptq",
        "bits": 8,
        "group_size": 128,
        "desc_act": False,
        "sym": True,
        "dynamic": {"-:.*mlp\\.gate$": {}},
    },
    "fp8-block": {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    },
    "fp8-dynamic": _compressed_tensors(
        {**_FP8, "strategy": "channel"}, {**_FP8, **_TOKEN}, "float-quantized"
    ),
    "fp8-static": _compressed_tensors(
        {**_FP8, "strategy": "tensor"},
        {**_FP8, "strategy": "tensor", "dynamic": False},
        "float-quantized",
    ),
    "w4a16": _compressed_tensors(
        {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128},
        None,
        "pack-quantized",
    ),
    "w8a8": _compressed_tensors(
        {**_INT8, "strategy": "channel"}, {**_INT8, **_TOKEN}, "int-quantized"
    ),
    "nvfp4": _compressed_tensors(_FP4, {**_FP4, "dynamic": "local"}, "nvfp4-pack-quantized"),
    "modelopt-fp8": {
        "quant_method": "modelopt",
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head"],
    },
    "modelopt-nvfp4": {
        "quant_method": "modelopt_fp4",
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head", "model.layers.*.mlp.gate"],
    },
}
