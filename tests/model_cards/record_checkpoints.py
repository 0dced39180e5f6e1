"""Tiny checkpoints as transformers stores them, for the tests of what headers tell.

Needs transformers and torch (not vplan's dependencies); writes `data/checkpoints.jsonl`: a
config.json and the dtype and shape of every tensor that `save_pretrained` put into its files.
"""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

OUT = Path(__file__).parent / "data" / "checkpoints.jsonl"

TEXT: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "head_dim": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "dtype": "bfloat16",
}  # fmt: skip
MOE: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
MLA: dict[str, Any] = {
    "q_lora_rank": 24, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
    "v_head_dim": 16, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "num_key_value_heads": 4,
}  # fmt: skip
DELTA: dict[str, Any] = {
    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_num_value_heads": 4,
    "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
SLIDING: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 32,
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": 32, "depth": 2, "num_heads": 4, "intermediate_size": 48, "out_hidden_size": 64,
    "patch_size": 4, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16,
    "vision_use_head": False,
}  # fmt: skip

# Encoders that a config names itself.
AUTO_VISION = {"mistral3": "pixtral", "gemma3": "siglip_vision_model"}

# Model class -> changes to its config; a `text_config` or `vision_config` is changed too.
MODELS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {}, "MistralForCausalLM": {}, "Qwen2ForCausalLM": {},
    "Qwen3ForCausalLM": {"tie_word_embeddings": True}, "GemmaForCausalLM": {},
    "Gemma2ForCausalLM": SLIDING, "Gemma3ForCausalLM": SLIDING,
    "Phi3ForCausalLM": {}, "GraniteForCausalLM": {}, "Olmo2ForCausalLM": {},
    "Olmo3ForCausalLM": SLIDING, "SmolLM3ForCausalLM": {}, "SeedOssForCausalLM": {},
    "GlmForCausalLM": {}, "Glm4ForCausalLM": {}, "Exaone4ForCausalLM": SLIDING,
    "CohereForCausalLM": {}, "Cohere2ForCausalLM": SLIDING, "StableLmForCausalLM": {},
    "Starcoder2ForCausalLM": {}, "PhiForCausalLM": {}, "Ernie4_5ForCausalLM": {},
    "GPT2LMHeadModel": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "OPTForCausalLM": {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "FalconForCausalLM": {},
    "MixtralForCausalLM": MOE | {"num_local_experts": 4},
    "PhimoeForCausalLM": MOE | {"num_local_experts": 4},
    "OlmoeForCausalLM": MOE | {"num_experts": 4},
    "Qwen2MoeForCausalLM": MOE | {"num_experts": 4, "shared_expert_intermediate_size": 48},
    "Qwen3MoeForCausalLM": MOE | {"num_experts": 4},
    "GraniteMoeForCausalLM": MOE | {"num_local_experts": 4},
    "Ernie4_5_MoeForCausalLM": MOE | {"moe_num_experts": 4, "moe_k": 2},
    "MiniMaxM2ForCausalLM": MOE | {"num_local_experts": 4, "rotary_dim": 8},
    "GptOssForCausalLM": MOE | SLIDING | {"num_local_experts": 4},
    "DeepseekV2ForCausalLM": MOE | MLA, "DeepseekV3ForCausalLM": MOE | MLA,
    "Glm4MoeForCausalLM": MOE | {"n_routed_experts": 4, "first_k_dense_replace": 1,
                                 "n_group": 1, "topk_group": 1},
    "MambaForCausalLM": {"state_size": 8, "intermediate_size": 128},
    "FalconMambaForCausalLM": {"state_size": 8, "intermediate_size": 128},
    "Mamba2ForCausalLM": {"num_heads": 8, "head_dim": 16, "state_size": 8, "n_groups": 2},
    "JambaForCausalLM": {"num_experts": 2, "num_experts_per_tok": 1, "num_hidden_layers": 4,
                         "attn_layer_period": 2, "attn_layer_offset": 1,
                         "expert_layer_period": 2, "expert_layer_offset": 1,
                         "mamba_dt_rank": 8, "mamba_d_state": 8},
    "GraniteMoeHybridForCausalLM": MOE | {
        "num_local_experts": 4, "shared_intermediate_size": 48,
        "layer_types": ["mamba", "attention"],
        "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8},
    "Lfm2ForCausalLM": {"layer_types": ["conv", "full_attention"], "block_ff_dim": 96,
                        "block_auto_adjust_ff_dim": False},
    "Qwen3NextForCausalLM": MOE | DELTA | {"num_experts": 4, "shared_expert_intermediate_size": 48},
    "Qwen3_5ForConditionalGeneration": DELTA,
    "Qwen2_5_VLForConditionalGeneration": {},
    "Qwen3VLForConditionalGeneration": {},
    "Gemma3ForConditionalGeneration": SLIDING,
    "Mistral3ForConditionalGeneration": {},
    "Gemma4ForConditionalGeneration": SLIDING | {"hidden_size_per_layer_input": 16,
                                                 "vocab_size_per_layer_input": 128,
                                                 "global_head_dim": 32,
                                                 "num_kv_shared_layers": 0},
    "Llama4ForConditionalGeneration": MOE | {"num_local_experts": 4, "intermediate_size_mlp": 96},
    "Qwen3VLMoeForConditionalGeneration": MOE | {"num_experts": 4},
    "Qwen3_5MoeForConditionalGeneration": MOE | DELTA | {
        "num_experts": 4, "shared_expert_intermediate_size": 48},
    "GlmMoeDsaForCausalLM": MOE | MLA | {
        "index_n_heads": 4, "index_head_dim": 16, "index_topk": 64, "mlp_layer_types": None},
    "Glm4MoeLiteForCausalLM": MOE | MLA | {"mlp_layer_types": None},
    "NemotronHForCausalLM": MOE | {
        "layers_block_type": ["mamba", "attention"], "mamba_num_heads": 8, "mamba_head_dim": 16,
        "ssm_state_size": 8, "n_groups": 2},
    # Not modelled module by module.
    "ArceeForCausalLM": {}, "ApertusForCausalLM": {}, "NemotronForCausalLM": {},
    "GPTNeoXForCausalLM": {}, "BloomForCausalLM": {"n_layer": 2, "n_head": 4},
    "MptForCausalLM": {"d_model": 64, "n_heads": 4, "n_layers": 2},
    "Dots1ForCausalLM": MOE | {"n_routed_experts": 4, "n_shared_experts": 1,
                               "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
    "HunYuanDenseV1ForCausalLM": {}, "FlexOlmoForCausalLM": MOE | {"num_experts": 4},
    "HeliumForCausalLM": {}, "DiffLlamaForCausalLM": {},
    "RecurrentGemmaForCausalLM": {"lru_width": 64, "num_hidden_layers": 3},
}  # fmt: skip


def known(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Those values that a config class has a key for."""
    keys = kind().to_dict().keys() | kind.attribute_map.keys()
    return {key: value for key, value in values.items() if key in keys}


def tiny_config(model: Any, changes: dict[str, Any]) -> Any:
    kind = model.config_class
    parts = getattr(kind, "sub_configs", {}) or {}
    if "text_config" in parts:
        vision = parts.get("vision_config")
        if vision is transformers.AutoConfig:
            return kind(
                text_config=TEXT | changes, dtype="bfloat16",
                vision_config=VISION | {"model_type": AUTO_VISION[kind.model_type]},
            )  # fmt: skip
        return kind(
            text_config=TEXT | changes, vision_config=known(vision, VISION), dtype="bfloat16"
        )
    return kind(**known(kind, TEXT) | changes)


def headers(folder: Path) -> dict[str, list[Any]]:
    tensors: dict[str, list[Any]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            entries = json.loads(stream.read(length))
        entries.pop("__metadata__", None)
        tensors |= {name: [entry["dtype"], entry["shape"]] for name, entry in entries.items()}
    return tensors


def main() -> None:
    lines = []
    for name, changes in MODELS.items():
        model = getattr(transformers, name, None)
        if model is None:
            print(f"{name}: not in transformers {transformers.__version__}")
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                instance = model(tiny_config(model, changes)).to(torch.bfloat16)
                instance.save_pretrained(folder)
                config = json.loads((Path(folder) / "config.json").read_text())
                lines.append(
                    json.dumps({"config": config, "tensors": headers(Path(folder))},
                               separators=(",", ":"))
                )  # fmt: skip
        except Exception as error:  # one class less, and which
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    OUT.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} checkpoints, {OUT.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
