"""OLMo 2 and 3: norms after attention and MLP, and over q and k as a whole; OLMo 3 slides."""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder
from model_cards.architectures.transformers_backend import served_by_transformers
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    intermediate = config.integer("intermediate_size")
    bias = config.boolean("attention_bias", False)
    heads, kv_heads = config.integer("num_attention_heads"), config.num_kv_heads

    def modules(b: LayerBuilder) -> tuple[Module, ...]:
        return (
            *b.attention(qkv_bias=bias, o_bias=bias),
            b.norm("self_attn.q_norm", heads * config.head_size),
            b.norm("self_attn.k_norm", kv_heads * config.head_size),
            *b.gated_mlp(intermediate),
            b.norm("post_attention_layernorm"),
            b.norm("post_feedforward_layernorm"),
        )

    final = Tensor("model.norm", (config.integer("hidden_size"),))
    # OLMo 3 scales the frequencies of full layers only, and keeps those of both kinds.
    kinds = set(config.strings("layer_types"))
    tables = 1 if config.model_type == "olmo2" else len(kinds) or 2
    return served_by_transformers(config, scheme, modules, final, rotary_tables=tables)
