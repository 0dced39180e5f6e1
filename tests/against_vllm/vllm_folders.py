"""Model folders small enough for any machine: config.json and tokenizer, and weights at random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_VOCABULARY = 512
_COMMON: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "vocab_size": _VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 4,
        "head_dim": 32,
        "tie_word_embeddings": False,
    },
    "gemma3": {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "head_dim": 64,
        "num_key_value_heads": 2,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 64,
        "sliding_window": 512,
        "layer_types": [*["sliding_attention"] * 5, "full_attention"],
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "tie_word_embeddings": True,
    },
    "deepseek": {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "num_hidden_layers": 4,
        "num_key_value_heads": 8,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "scoring_func": "softmax",
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    },
    "mixtral": {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_hidden_layers": 3,
        "head_dim": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    "deepseek_mtp": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_hidden_layers": 3,
        "num_nextn_predict_layers": 1,
        "num_key_value_heads": 8,
        "kv_lora_rank": 512,
        "q_lora_rank": 128,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    },
    "eagle3": {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "head_dim": 32,
        "draft_vocab_size": 512,
        "tie_word_embeddings": False,
    },
    "qwen2_half_billion": {  # the shape of Qwen2.5-0.5B, with this vocabulary's tokenizer
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "num_hidden_layers": 24,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
    "lfm2": {
        "architectures": ["Lfm2ForCausalLM"],
        "model_type": "lfm2",
        "num_hidden_layers": 6,
        "layer_types": ["conv", "conv", "full_attention"] * 2,
        "conv_dim": 256,
        "conv_L_cache": 3,
        "conv_bias": False,
        "block_dim": 256,
        "block_ff_dim": 512,
        "block_auto_adjust_ff_dim": False,
        "block_multiple_of": 256,
        "norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
}


def make_folder(where: Path, name: str, called: str | None = None, **changes: Any) -> Path:
    """The folder of one of `CONFIGS`, with some keys changed."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = where / (called or name)
    folder.mkdir()
    config = _COMMON | CONFIGS[name] | changes
    (folder / "config.json").write_text(json.dumps(config))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<unk>", "<s>", "</s>", *letters]
    tokens += [f"<{number}>" for number in range(_VOCABULARY - len(tokens))]
    tokenizer = Tokenizer(models.BPE({token: id_ for id_, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return folder


def add_weights(folder: Path) -> Path:
    """Safetensors for a folder, as the model's checkpoints have them; drawn at random."""
    import torch
    from safetensors.torch import load_file, save_file

    config = json.loads((folder / "config.json").read_text())
    torch.manual_seed(0)
    path = folder / "model.safetensors"
    if "Eagle3" in config["architectures"][0]:
        weights = _eagle3_head(config)
    else:
        predictors = config.get("num_nextn_predict_layers", 0)
        _save_model(folder, config, config["num_hidden_layers"] + predictors)
        weights = load_file(path)
        for layer in range(predictors):
            weights |= _predictor(config, config["num_hidden_layers"] + layer)
    save_file(weights, path, {"format": "pt"})
    return folder


def _save_model(folder: Path, config: dict[str, Any], layers: int) -> None:
    """As transformers saves it; the config stays what it was."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    known = AutoConfig.for_model(**config | {"num_hidden_layers": layers})
    model = AutoModelForCausalLM.from_config(known, dtype=torch.bfloat16)
    ours = (folder / "config.json").read_text()
    model.save_pretrained(folder, max_shard_size="8GB")
    (folder / "config.json").write_text(ours)


def _drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Matrices at random, vectors (of norms) of ones."""
    import torch

    return {
        name: torch.randn(shape, dtype=torch.bfloat16) * 0.02
        if len(shape) > 1
        else torch.ones(shape, dtype=torch.bfloat16)
        for name, shape in shapes.items()
    }


def _predictor(config: dict[str, Any], layer: int) -> dict[str, Any]:
    """What a layer that predicts one token further has beside those of a decoder layer."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes = {
        "embed_tokens.weight": (vocabulary, hidden),
        "enorm.weight": (hidden,),
        "hnorm.weight": (hidden,),
        "eh_proj.weight": (hidden, 2 * hidden),
        "shared_head.norm.weight": (hidden,),
        "shared_head.head.weight": (vocabulary, hidden),
    }
    return _drawn({f"model.layers.{layer}.{name}": shape for name, shape in shapes.items()})


def _eagle3_head(config: dict[str, Any]) -> dict[str, Any]:
    """One decoder layer that reads the embedding and the states of three layers of the target."""
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    shapes = {
        "fc.weight": (hidden, 3 * hidden),
        "midlayer.self_attn.q_proj.weight": (queries, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (keys, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (keys, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, queries),
        "midlayer.mlp.gate_proj.weight": (inner, hidden),
        "midlayer.mlp.up_proj.weight": (inner, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, inner),
        "midlayer.hidden_norm.weight": (hidden,),
        "midlayer.input_layernorm.weight": (hidden,),
        "midlayer.post_attention_layernorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "lm_head.weight": (config["draft_vocab_size"], hidden),
    }
    return _drawn(shapes)
