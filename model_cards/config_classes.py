"""What vLLM reads in a config.json that the file itself does not say.

vLLM sees a config through transformers' class for its `model_type`, which knows some keys by other
names and gives absent ones a default. Here are those that decide memory and that published files
leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from model_cards.config import Config

# model_type -> the usual name of a key -> the name in the file.
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "gpt2": {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    "nomic_bert": {
        "hidden_size": "n_embd",
        "intermediate_size": "n_inner",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    "whisper": {"hidden_size": "d_model"},
    "qwen3_moe": {"num_experts": "num_local_experts"},  # as transformers 5 writes it
    "qwen3_vl_moe_text": {"num_experts": "num_local_experts"},
}

# model_type -> key -> the class's default.
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cohere": {"max_position_embeddings": 8192, "tie_word_embeddings": True},
    "cohere2": {
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
        "tie_word_embeddings": True,
    },
    "ernie4_5": {
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "exaone4": {"max_position_embeddings": 2048, "sliding_window": 4096},
    "falcon": {"max_position_embeddings": 2048, "tie_word_embeddings": True},
    "glm": {
        "attention_bias": True,
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5,
    },
    "glm4": {
        "attention_bias": True,
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5,
    },
    "gpt2": {"n_positions": 1024, "tie_word_embeddings": True},
    "gemma3_text": {
        "head_dim": 256,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "max_position_embeddings": 131072,
        "num_attention_heads": 8,
        "num_hidden_layers": 26,
        "num_key_value_heads": 4,
        "rope_theta": 1_000_000.0,
        "sliding_window": 4096,
        "vocab_size": 262208,
    },
    "gemma3n_text": {
        "head_dim": 256,
        "hidden_size": 2048,
        "max_position_embeddings": 32768,
        "num_attention_heads": 8,
        "num_hidden_layers": 35,
        "num_key_value_heads": 2,
        "rope_theta": 1_000_000.0,
        "sliding_window": 512,
        "vocab_size": 262400,
    },
    "granite": {"max_position_embeddings": 2048},
    "granitemoehybrid": {"max_position_embeddings": 2048},
    "jamba": {"max_position_embeddings": 262144},
    "kimi_linear": {"max_position_embeddings": 4096, "q_lora_rank": None},
    "llama": {"max_position_embeddings": 2048},
    "lfm2": {"max_position_embeddings": 128000},
    "nemotron_h": {"max_position_embeddings": 4096},
    "nomic_bert": {"max_position_embeddings": 2048, "type_vocab_size": 2},
    "olmo2": {"max_position_embeddings": 2048},
    "olmo3": {"max_position_embeddings": 2048, "sliding_window": 4096},
    "opt": {"max_position_embeddings": 2048, "tie_word_embeddings": True},
    "phi": {"max_position_embeddings": 2048, "partial_rotary_factor": 0.5},
    "seed_oss": {
        "attention_bias": True,
        "head_dim": 128,
        "max_position_embeddings": 524288,
        "num_key_value_heads": 8,
    },
    "smollm3": {
        "max_position_embeddings": 32768,
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
    },
    "stablelm": {"max_position_embeddings": 4096, "partial_rotary_factor": 0.25},
    "starcoder2": {
        "max_position_embeddings": 4096,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
        "use_bias": True,
    },
}


# model_type -> that of a text part which names none.
_TEXT_TYPES: Final[Mapping[str, str]] = {"gemma3": "gemma3_text", "gemma3n": "gemma3n_text"}


def through_class(config: Config) -> Config:
    """`config` as its class shows it, text part included. A key set to null stays null."""
    config = _filled(config, config.model_type)
    text = config.section("text_config")
    if text is None:
        return config
    text = _filled(text, text.model_type or _TEXT_TYPES.get(config.model_type, ""))
    return config.merged({"text_config": {key: text.raw(key) for key in text}})


def _filled(config: Config, model_type: str) -> Config:
    defaults = _DEFAULTS.get(model_type, {})
    config = config.merged({k: v for k, v in defaults.items() if not config.names(k)})
    names = _NAMES.get(model_type, {})
    return config.merged({k: config.raw(v) for k, v in names.items() if not config.names(k)})
