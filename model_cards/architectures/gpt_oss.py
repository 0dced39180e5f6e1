"""gpt-oss: attention with sinks, every other layer over a sliding window, experts with biases."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    tied_embeddings,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Tensor
from model_cards.quantization.scheme import QuantScheme

_ACTIVATION_PARAMETERS = 3  # of a SwiGLU with a slope, an offset and a limit


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    experts = config.integer("num_local_experts")
    active = config.integer("num_experts_per_tok", config.integer("experts_per_token", 4))
    width = config.integer("intermediate_size")
    window = config.integer("sliding_window")

    def layer(b: LayerBuilder, index: int) -> Layer:
        heads = config.integer("num_attention_heads")
        slides = window if index % 2 == 0 else None
        return Layer(
            (
                *b.attention(qkv_bias=True, o_bias=True),
                Tensor("self_attn.sinks", (heads,), sharded=True),
                b.replicated("mlp.router", b.hidden, experts, bias=True, quantized=False),
                replace(
                    b.experts(experts, active, width, bias=True),
                    activation_parameters=_ACTIVATION_PARAMETERS,
                ),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (replace(b.cache(slides), sinks=True),),
        )

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, False))
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: index % 2),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (replace(rotary_cache(config), dtype="float32"),),
        max_intermediate_size=active * width,
        experts_per_token=active,
    )
