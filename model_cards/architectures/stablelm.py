"""StableLM 2: Llama's layers with LayerNorms and heads that are rotated in part."""

from __future__ import annotations

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


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    intermediate = config.integer("intermediate_size")
    bias = config.boolean("use_qkv_bias", False)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias),
                *b.gated_mlp(intermediate),
                b.layer_norm("input_layernorm"),
                b.layer_norm("post_attention_layernorm"),
            ),
            (b.cache(),),
        )

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, False))
    return Body(
        embedding,
        assemble(config, scheme, layer),
        (Tensor("model.norm", (2, config.integer("hidden_size"))),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )
