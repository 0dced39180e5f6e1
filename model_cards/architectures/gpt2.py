"""GPT-2: learned positions, LayerNorms, biases everywhere; the whole of it on every stage."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    tied_embeddings,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden = config.integer("hidden_size")
    intermediate = config.integer("n_inner", 4 * hidden)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(
                    "attn",
                    qkv="c_attn",
                    out="c_proj",
                    qkv_bias=True,
                    o_bias=True,
                    parts=("c_attn",),
                ),
                *b.plain_mlp(intermediate, "c_fc", "c_proj", bias=True),
                b.layer_norm("ln_1"),
                b.layer_norm("ln_2"),
            ),
            (b.cache(),),
        )

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, True))
    positions = Tensor("transformer.wpe", (config.integer("max_position_embeddings"), hidden))
    return Body(
        embedding,
        assemble(config, scheme, layer, root="transformer.h"),
        # On every stage as the final norm is, so counted with it.
        (positions, Tensor("transformer.ln_f", (2, hidden))),
        head,
        (),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )
