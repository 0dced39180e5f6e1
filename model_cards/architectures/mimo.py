"""MiMo: Qwen 2's network, and multi-token-prediction layers of the same shape."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import Body, LayerBuilder, rotary_cache
from model_cards.architectures.qwen2 import text_body
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    heads = config.integer("num_nextn_predict_layers", 0, minimum=0)
    drafts = (_mtp(config, scheme, heads),) if heads else ()
    return replace(text_body(config, scheme), drafts=drafts)


def _mtp(config: Config, scheme: QuantScheme, heads: int) -> Draft:
    """Every head is a layer behind a projection that is never quantized."""
    layers: list[Layer] = []
    around: list[Module] = []
    for index in range(heads):
        b = LayerBuilder(config, scheme, f"model.mtp_layers.{index}")
        layers.append(
            Layer(
                (
                    *b.attention(qkv_bias=True),
                    *b.gated_mlp(config.integer("intermediate_size")),
                    b.norm("input_layernorm"),
                    b.norm("post_attention_layernorm"),
                ),
                (b.cache(),),
            )
        )
        around += [
            b.replicated("input_proj", 2 * b.hidden, b.hidden, quantized=False),
            b.norm("token_layernorm"),
            b.norm("hidden_layernorm"),
            b.norm("final_layernorm"),
        ]
    return Draft("mtp", tuple(layers), tuple(around), rotary=(rotary_cache(config),))
