"""Phi 3.5 MoE: Mixtral's layers with LayerNorms, and biases in attention and output head."""

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
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts = config.integer("num_local_experts", 16)
    active = config.integer("num_experts_per_tok", 2)
    intermediate = config.integer("intermediate_size")
    window = config.optional_integer("sliding_window", minimum=0) or None

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=True, o_bias=True),
                b.router(experts, "block_sparse_moe.gate"),
                b.experts(experts, active, intermediate, "block_sparse_moe.experts", trtllm=False),
                b.layer_norm("input_layernorm"),
                b.layer_norm("post_attention_layernorm"),
            ),
            (b.cache(window),),
        )

    # vLLM's class has biases whatever the config says, and never quantizes the head.
    embedding, head = vocabulary(config, NO_QUANTIZATION, tied=False, head_bias=True)
    return Body(
        embedding,
        assemble(config, scheme, layer),
        (Tensor("model.norm", (2, config.integer("hidden_size"))),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=active * intermediate,
        experts_per_token=active,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )
