"""Configs small enough to count by hand, and the cards made of them."""

from __future__ import annotations

from typing import Any

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.modules import Embedding, Linear

# 4 heads and 2 KV heads of 2 features, so q is 8 wide, k and v are 4 wide.
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "vocab_size": 10,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
# Embedding 10 x 8 and head 10 x 8; a layer: q, o 8 x 8, k, v 8 x 4, three 8 x 16, two norms of 8.
LLAMA_PARAMETERS = 80 + 80 + 2 * (2 * 64 + 2 * 32 + 3 * 128 + 2 * 8) + 8

# Gated delta net: 2 key heads of 3 features, 4 value heads of 5, a convolution over 4 tokens.
DELTA_NET: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 3,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 4,
}


def llama(**changes: Any) -> dict[str, Any]:
    """`LLAMA` with some keys changed; None takes a key out."""
    return {key: value for key, value in (LLAMA | changes).items() if value is not None}


def card_of(
    config: dict[str, Any], *, side: dict[str, Any] | None = None, **facts: Any
) -> ModelCard:
    """The card of a config.json (and an hf_quant_config.json)."""
    side_file = Config(side, "hf_quant_config.json") if side is not None else None
    return build_card(
        "org/tiny",
        Config(config, "config.json"),
        Origin("folder", "tiny"),
        Facts(side_file=side_file, **facts),
    )


def formats(card: ModelCard, layer: int = 0) -> dict[str, str]:
    """Kind of weight format by name of linear layer, `lm_head` included."""
    kinds = {
        module.name: module.format.kind
        for module in card.layers[layer].modules
        if isinstance(module, Linear)
    }
    if isinstance(card.lm_head, Embedding):
        kinds["lm_head"] = card.lm_head.format.kind
    return kinds
