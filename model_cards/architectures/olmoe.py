"""OLMoE: every layer sparse, norms over all query and all key features at once."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts = config.integer("num_experts", 64)
    active = config.integer("num_experts_per_tok", 8)
    intermediate = config.integer("intermediate_size", 2048)
    heads, kv_heads = config.integer("num_attention_heads"), config.num_kv_heads

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(),
                # Whole on every rank: vLLM gathers all heads to normalize them.
                b.norm("self_attn.q_norm", heads * config.head_size),
                b.norm("self_attn.k_norm", kv_heads * config.head_size),
                b.router(experts),
                b.experts(experts, active, intermediate, trtllm=False),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(),),
        )

    embedding, head = vocabulary(config, scheme, tied=False)
    return Body(
        embedding,
        assemble(config, scheme, layer),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=active * intermediate,
        experts_per_token=active,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )
