"""Make `model_cards/data/catalogue.jsonl`, the bundled snapshot of model configs.

    python tools/build_cards.py CONFIGS_FOLDER

CONFIGS_FOLDER holds `<org>__<name>/config.json` (with hf_quant_config.json where there is one),
INDEX.jsonl (id, source, kind, totals), ALIASES.jsonl (further ids of the same shape) and
PARAMS.jsonl (totals and dimensions of repositories without a config). One line a model, facts
only: keys that say nothing about size or placement are left out, long module lists are folded.

Three kinds of line: `target` and `draft` have a config; `alias` is another id with the shape of
`of`; `variant` is a quantized repository known by name, format and total, described by its base
model `of` and the `preset` of its format.
"""

from __future__ import annotations

import argparse
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

from written_configs import POOLED, WRITTEN

from model_cards.quantization.presets import PRESETS
from model_cards.sources.folding import fold

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "model_cards" / "data" / "catalogue.jsonl"
QUALITY = ROOT / "planner" / "recommendation" / "data" / "quality.jsonl"
TWIN_DIMENSIONS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")

# Keys that say nothing about size, placement, cache or what vLLM decides.
NOISE = re.compile(
    r"^(.*_(token_id|token_ids|token_index|dropout|eps|pdrop|activation|coef|range|loss\w*|mscale)"
    r"|transformers_version|_name_or_path|use_cache|hidden_act|id2label|label2id|architecture_type"
    r"|task_specific_params|pretraining_tp|output_\w+|transformers\.js_config|base_config"
    r"|initializer\w*|image_grid_pinpoints|logit_scale|logits_scaling|scoring_func|cache_implementation"
    r"|attn_logit_softcapping|final_logit_softcapping|query_pre_attn_scalar|routed_scaling_factor"
    r"|(embedding|residual|attention)_multiplier|short_factor|long_factor|beta_(fast|slow)"
    r"|attention_factor|tokenizer_class|unsloth\w*|producer|video_placeholder|norm_topk_prob)$"
)


LISTS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")


def slim(value: Any) -> Any:
    """Without the keys that say nothing."""
    if isinstance(value, dict):
        return {key: slim(item) for key, item in value.items() if not NOISE.match(key)}
    return value


def slim_config(config: dict[str, Any]) -> dict[str, Any]:
    config = slim(config)
    if "auto_map" in config:
        config["auto_map"] = {"AutoConfig": "remote"}  # that it needs remote code, not which
    for part in (config, config.get("text_config") or {}):
        quantization = part.get("quantization_config")
        if isinstance(quantization, dict):
            part["quantization_config"] = slim_quantization(quantization)
    return config


def slim_quantization(settings: dict[str, Any]) -> dict[str, Any]:
    """Module lists folded; per-layer tables as a list of folded paths for each setting."""
    settings = dict(settings)
    for key in LISTS:
        if isinstance(settings.get(key), list):
            settings[key] = fold(settings[key])
    if isinstance(settings.get("quantization"), dict):
        settings["quantization"] = slim_quantization(settings["quantization"])
    table = settings.pop("quantized_layers", None)
    if table:
        by_setting: dict[str, list[str]] = {}
        for path, setting in table.items():
            by_setting.setdefault(json.dumps(setting, sort_keys=True), []).append(path)
        settings["quantized_layers_folded"] = [
            {**json.loads(setting), "paths": fold(paths)} for setting, paths in by_setting.items()
        ]
    groups = settings.get("config_groups")
    if isinstance(groups, dict):
        for group in groups.values():
            if isinstance(group.get("targets"), list):
                group["targets"] = fold(group["targets"])
    return settings


# What the config of Llama 4's FP8 copy says of the tower that transformers' defaults do not.
LLAMA4_VISION = {
    "model_type": "llama4_vision_model",
    "hidden_size": 1408,
    "image_size": 336,
    "vision_output_dim": 4096,
}
# What MiniMax M3's NVFP4 copy says of the whole model, whose text part the other copy is.
MINIMAX_M3 = {
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
    "model_type": "minimax_m3_vl",
    "torch_dtype": "bfloat16",
    "projector_hidden_size": 6144,
    "vision_config": {
        "hidden_size": 1280,
        "num_attention_heads": 16,
        "num_hidden_layers": 32,
        "intermediate_size": 5120,
        "patch_size": 14,
        "image_size": 2016,
        "num_channels": 3,
        "img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2},
    },
}
# Kimi Linear as published: which layers are linear, and that the others have no positions.
KIMI_LINEAR = {
    "first_k_dense_replace": 1,
    "head_dim": 72,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "kda_layers": [layer for layer in range(1, 27) if layer % 4],
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
    "mla_use_nope": True,
}
# GLM-5.3-Flash as published, where transformers' defaults differ or say nothing.
GLM5_NEXT_TEXT = {
    "index_kpool": 4,
    "indexer_rope_interleave": True,
    "mhc": True,
    "mla_use_nope": True,
    "moe_router_dtype": "float32",
    "num_nextn_predict_layers": 1,
    "topk_method": "noaux_tc",
}
GLM5_NEXT_VISION = {
    "model_type": "glm5_next_vision",
    "depth": 24,
    "hidden_size": 1024,
    "in_channels": 3,
    "intermediate_size": 4096,
    "num_heads": 16,
    "out_hidden_size": 4096,
    "patch_size": 14,
    "projection_intermediate_size": 10240,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
FP8_BLOCKS = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}
# How MiniMax publishes all of M2, M2.1, M2.5 and M2.7.
MINIMAX_M2 = {
    "rotary_dim": 64,
    "use_routing_bias": True,
    "quantization_config": {
        **FP8_BLOCKS,
        "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"],
    },
}


# MXFP4 experts (vLLM's default for the model) and MXFP8 in blocks of 32x32.
DEEPSEEK_V41 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "scale_fmt": "ue8m0",
    "weight_block_size": [32, 32],
    "expert_dtype": "fp4",
}


MINISTRAL3_FP8 = {
    "activation_scheme": "static",
    "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"],
    "quant_method": "fp8",
}

WITHOUT_Q_LORA = ("deepseek-ai/DeepSeek-V2-Lite-Chat",)


def correct(row: dict[str, Any], config: dict[str, Any]) -> str | None:
    """Put right what a copy of a config leaves out and its published total proves."""
    match config.get("model_type"):
        case "step3p7":
            config["architectures"] = ["Step3p7ForConditionalGeneration"]
            return "architectures: the copy's name is of no class; vLLM has this one of the type"
        case "ministral3" if "vision_config" in config:
            config["model_type"] = "mistral3"
            config["quantization_config"] = dict(MINISTRAL3_FP8)
            return (
                "model_type, quantization_config: the copy is of another program's preset; these "
                "are what transformers' conversion of the model writes"
            )
        case "llama4" if "vision_config" not in config:
            config["vision_config"] = LLAMA4_VISION
            return "vision_config: the total is that of the tower of the FP8 copy's config"
        case "gemma4" if config["text_config"].get("hidden_size_per_layer_input"):
            config["audio_config"] = {"model_type": "gemma4_audio"}
            return "audio_config: the total is that of the class's default encoder"
        case "deepseek_v2" if "q_lora_rank" not in config and row["repo_id"] in WITHOUT_Q_LORA:
            config["q_lora_rank"] = None
            return "q_lora_rank: the total is that of queries without a low rank, as in V2-Lite"
        case "minimax_m3":
            text = {key: config[key] for key in config if key not in MINIMAX_M3}
            config.clear()
            config.update(MINIMAX_M3, text_config=text)
            return "vision_config: the total is that of the NVFP4 copy's config"
        case "mimo_v2_flash":
            layers = f"model.layers.{{0-{config['num_hidden_layers'] - 1}}}"
            outputs = [f"{layers}.self_attn.o_proj"]
            config["quantization_config"].setdefault("modules_to_not_convert", outputs)
            return "modules_to_not_convert: the total's scale count leaves out the outputs"
    return correct_reconstructed(row["repo_id"], config) if row["reconstructed"] else None


def correct_reconstructed(model_id: str, config: dict[str, Any]) -> str | None:
    """Further keys that a config put together from facts cannot know.

    The total counts the scales of an FP8 checkpoint, so it tells which matrices have some.
    """
    match config.get("model_type"):
        case "cohere" | "cohere2" if model_id.startswith("CohereLabs/c4ai-command"):
            config["model_max_length"] = 131072
            return "model_max_length: Cohere states 128K tokens (transformers' model page)"
        case "gemma3" if config["text_config"].get("max_position_embeddings") == 163840:
            config["text_config"] |= {"max_position_embeddings": 131072, "rope_theta": 1000000.0}
            return "text_config: length and base are the class's defaults, as for the 27B"
        case "kimi_linear":
            config.update(KIMI_LINEAR)
            return "linear_attn_config: the total is that of 20 linear and 7 MLA layers"
        case "glm5_next":
            config["text_config"].update(GLM5_NEXT_TEXT)
            config["vision_config"] = GLM5_NEXT_VISION
            if not model_id.endswith("-BF16"):
                config["quantization_config"] = dict(FP8_BLOCKS)
            return "index_kpool, vision_config, num_nextn_predict_layers: the total counts them"
        case "deepseek_v41":
            config["quantization_config"] = dict(DEEPSEEK_V41)
            return "quantization_config: not published; what vLLM's class of the model reads"
        case "ernie4_5_moe" | "glm4_moe_lite" if "num_nextn_predict_layers" not in config:
            config["num_nextn_predict_layers"] = 1
            return "num_nextn_predict_layers: the total counts one MTP layer"
        case "mistral3" if config["text_config"].get("tie_word_embeddings") is False:
            config["tie_word_embeddings"] = False
            return "tie_word_embeddings: the total counts an output head of its own"
        case "minimax_m2" if "quantization_config" not in config:
            config.update(MINIMAX_M2)
            return "quantization_config: the total is that of M2.7, whose config is known"
    settings = config.get("quantization_config") or {}
    if settings.get("quant_method") != "fp8":
        return None
    skipped = settings.setdefault("modules_to_not_convert", [])
    layers = f"{{0-{config.get('num_hidden_layers', 0) - 1}}}"
    match config.get("model_type"):
        case "qwen3_moe" if not skipped:
            skipped += ["lm_head", f"model.layers.{layers}.mlp.gate"]
            return "modules_to_not_convert: the total's scale count shows unquantized routers"
        case "qwen3_next" if not skipped:
            skipped += ["lm_head", f"model.layers.{layers}.linear_attn.in_proj_ba", "mtp.fc"]
            return "modules_to_not_convert: the total's scale count leaves out b, a and mtp.fc"
        case "qwen3_5" | "qwen3_5_moe" if not any("visual." in path for path in skipped):
            blocks = f"model.visual.blocks.{{0-{config['vision_config']['depth'] - 1}}}"
            for name in ("attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2"):
                skipped.append(f"{blocks}.{name}")
            skipped += ["model.visual.merger.linear_fc1", "model.visual.merger.linear_fc2"]
            return "modules_to_not_convert: the total's scale count shows an unquantized tower"
    if not skipped:
        del settings["modules_to_not_convert"]
    return None


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def configured(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for row in read_rows(folder / "INDEX.jsonl"):
        place = folder / row["dir"]
        config = json.loads((place / "config.json").read_text())
        slimmed = slim_config(config)
        corrected = correct(row, slimmed)
        line = {
            "id": row["repo_id"],
            "kind": "target" if row["kind"] == "target" else "draft",
            "config": slimmed,
            "corrected": corrected,
        }
        if row["kind"] != "target":
            line["method"] = row["kind"]
            line["drafts_for"] = row.get("drafts_for")
        side = place / "hf_quant_config.json"
        if side.exists():
            line["side"] = slim_quantization(json.loads(side.read_text()))
        line |= {
            "parameters": row.get("total_parameters"),
            "bytes": row.get("checkpoint_bytes"),
            "license": row.get("license"),
            "reconstructed": row["reconstructed"] or None,
            "source": row["source"].removeprefix("reconstructed: "),
        }
        rows.append({key: value for key, value in line.items() if value is not None})
    return rows


def aliases(folder: Path, known: set[str]) -> list[dict[str, Any]]:
    rows = []
    for row in read_rows(folder / "ALIASES.jsonl"):
        if row["repo_id"] in known or row["alias_of"] not in known:
            continue
        line = {
            "id": row["repo_id"],
            "kind": "alias",
            "of": row["alias_of"],
            "length": row.get("max_position_embeddings"),
            "license": row.get("license"),
            "source": row["basis"],
        }
        rows.append({key: value for key, value in line.items() if value is not None})
    return rows


def twins(folder: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rated models without a config whose kind, dimensions and exact total are those of one.

    A later version or another tuning of the same network: nothing of its size differs.
    """
    known = {line["id"].lower() for line in lines}
    rated = {json.loads(text).get("id", "").lower() for text in QUALITY.read_text().splitlines()}
    by_total: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        own = line["kind"] == "target" and not line.get("reconstructed")
        if own and preset_of(line["id"]) is None:  # no copy in another format
            by_total.setdefault(line.get("parameters") or 0, []).append(line)
    rows = []
    for row in read_rows(folder / "PARAMS.jsonl"):
        name = row["name"]
        if name.lower() in known or name.lower() not in rated:
            continue
        for line in by_total.get(row["parameters_raw"], ()):
            config = line["config"]
            text = {**config, **config.get("text_config", {})}
            same = all(text.get(key) == row.get(key) for key in TWIN_DIMENSIONS)
            if config.get("model_type") == row["architecture"] and same:
                alias = {
                    "id": name,
                    "kind": "alias",
                    "of": line["id"],
                    "length": row.get("context_length"),
                    "license": row.get("license"),
                    "source": "same model_type, dimensions and total in PyPI llmfit 1.1.17",
                }
                rows.append({key: value for key, value in alias.items() if value is not None})
                break
    return rows


# Name endings of quantized repositories -> preset, tried in order.
ENDINGS: list[tuple[str, str]] = [
    (r"[-_]awq(-int4)?$", "awq"),
    (r"[-_]gptq(-int4|-4bit)$", "gptq-int4"),
    (r"[-_]gptq-int8$", "gptq-int8"),
    (r"-fp8-dynamic$", "fp8-dynamic"),
    (r"-fp8-block$", "fp8-block"),
    (r"[-.]quantized\.w4a16$", "w4a16"),
    (r"-w4a16$", "w4a16"),
    (r"-int4$", "w4a16"),
    (r"[-.]quantized\.w8a8$", "w8a8"),
    (r"-nvfp4$", "nvfp4"),
    (r"-fp8$", "fp8"),
]
ON_FP8 = "modelopt-nvfp4-on-fp8"
OWN_FP8 = {"Qwen": "fp8-block", "nvidia": "modelopt-fp8", "zai-org": "fp8-block"}


# Who makes NVFP4 copies with NVIDIA's ModelOpt: it says so in the official commands.
BY_MODELOPT = ("nvidia", "stepfun-ai")


def preset_of(repo: str) -> tuple[str, str] | None:
    """(base name, preset) by the ending of the name and who published it."""
    owner, _, name = repo.partition("/")
    for ending, preset in ENDINGS:
        match = re.search(ending, name, re.IGNORECASE)
        if match is None:
            continue
        base = name[: match.start()]
        if preset == "fp8":
            preset = OWN_FP8.get(owner, "fp8-static")
        if preset == "nvfp4" and owner in BY_MODELOPT:
            preset = ON_FP8 if base.startswith("DeepSeek-V4") else "modelopt-nvfp4"
        return base, preset
    return None


def is_quantized(line: dict[str, Any]) -> bool:
    return "quantization_config" in line.get("config", {}) or "side" in line


def variants(folder: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Quantized repositories of PARAMS.jsonl whose base model is in the catalogue."""
    params = {row["name"]: row for row in read_rows(folder / "PARAMS.jsonl")}
    known = {line["id"] for line in lines}
    by_name: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if line["kind"] in ("target", "alias"):  # a draft is no base
            by_name.setdefault(line["id"].split("/")[1].lower(), []).append(line)
    rows = []
    for name, row in params.items():
        guess = preset_of(name)
        if name in known or guess is None or row["format"] == "mlx":
            continue
        base_name, preset = guess
        wanted = base_name.lower()
        spellings = {wanted, wanted.removeprefix("meta-"), f"{wanted}-bf16"}
        bases = [line for spelling in spellings for line in by_name.get(spelling, [])]
        bases = [line for line in bases if preset == ON_FP8 or not is_quantized(line)]
        owners = {line["id"].split("/")[0] for line in bases}
        if not bases or len(owners) > 1:
            continue
        base = bases[0]
        origin = params.get(base["id"], {})
        shape = ("num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads")
        if any(row.get(k) and origin.get(k) and row[k] != origin[k] for k in shape):
            continue
        assert preset in PRESETS
        line = {
            "id": name,
            "kind": "variant",
            "of": base["id"],
            "preset": preset,
            "parameters": row["parameters_raw"],
            "license": row.get("license"),
            "source": "PyPI llmfit 1.1.17 (total of the Hub's API); layout: the format's usual one",
        }
        rows.append({key: value for key, value in line.items() if value is not None})
    return rows


def with_written(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the configs that were written for it, and without second spellings of an id."""
    first: dict[str, dict[str, Any]] = {}
    for line in [*lines, *WRITTEN]:
        first.setdefault(line["id"].lower(), line)
    for model_id, pooling in POOLED.items():
        first[model_id.lower()]["pooling"] = pooling
    return list(first.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of configs with INDEX.jsonl")
    folder = parser.parse_args().folder
    lines = configured(folder)
    lines += aliases(folder, {line["id"] for line in lines})
    lines += twins(folder, lines)
    lines += variants(folder, lines)
    lines = with_written(lines)
    lines.sort(key=lambda line: line["id"].lower())
    OUTPUT.with_suffix(".date").write_text(f"{date.today()}\n")
    with OUTPUT.open("w") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")
    kinds = [line["kind"] for line in lines]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    print(f"{OUTPUT.name}: {counts}; {OUTPUT.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
