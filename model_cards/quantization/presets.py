"""The usual `quantization_config` of each format people publish.

Stands in for repositories known only by name, format and total. Layouts as the tools write them:
AutoAWQ and GPTQModel defaults, llm-compressor's presets (compressed-tensors `quant_scheme.py`),
ModelOpt's NVFP4 and FP8, the block FP8 of Qwen and DeepSeek.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Encoders, what projects their output, and Gemma 3n's small matrices: the totals of published
# checkpoints count no scales there.
_KEPT = (
    "visual",
    "vision_tower",
    "audio_tower",
    "multi_modal_projector",
    "embed_vision",
    "embed_audio",
    "altup",
    "laurel",
    "per_layer",
)


def _compressed_tensors(
    weights: dict[str, Any], inputs: dict[str, Any] | None, packing: str
) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": packing,
        "config_groups": {"group_0": group},
        "ignore": [
            "lm_head",
            "re:.*mlp.gate$",
            "re:.*block_sparse_moe.gate$",
            f"re:.*({'|'.join(_KEPT)})",
        ],
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
        "modules_to_not_convert": ["mlp.gate.", "block_sparse_moe.gate", *_KEPT],
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
        "exclude_modules": ["lm_head", *_KEPT],
    },
    "modelopt-nvfp4": {
        "quant_method": "modelopt_fp4",
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head", "*.mlp.gate", *_KEPT],
    },
    # Over the settings of a DeepSeek V4: experts only, and not those of its drafts.
    "modelopt-nvfp4-on-fp8": {"moe_quant_algo": "NVFP4", "ignore": ["mtp.*"]},
}


def usual_settings(preset: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a preset for the base model that `config` describes."""
    settings = dict(PRESETS[preset])
    if preset == "modelopt-nvfp4-on-fp8":
        return {**config["quantization_config"], **settings}
    if preset == "fp8-block":  # its lists name whole paths
        settings["modules_to_not_convert"] = [*_vision_paths(config), *_router_paths(config)]
    return settings


def _vision_paths(config: Mapping[str, Any]) -> list[str]:
    """Linear layers of Qwen3-VL's vision tower."""
    vision = config.get("vision_config") or {}
    layers = ("attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2")
    paths = [f"blocks.{i}.{name}" for i in range(vision.get("depth", 0)) for name in layers]
    levels = len(vision.get("deepstack_visual_indexes", ()))
    for merger in ("merger", *(f"deepstack_merger_list.{level}" for level in range(levels))):
        paths += [f"{merger}.linear_fc1", f"{merger}.linear_fc2"]
    return [f"model.visual.{path}" for path in paths if vision]


def _router_paths(config: Mapping[str, Any]) -> list[str]:
    """Routers of a Qwen 3 MoE model, alone or behind a vision tower."""
    text = config.get("text_config") or config
    if "num_experts" not in text:
        return []
    root = "model.language_model.layers" if text is not config else "model.layers"
    return [f"{root}.{layer}.mlp.gate" for layer in range(text["num_hidden_layers"])]
