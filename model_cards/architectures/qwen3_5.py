"""Qwen 3.5, 3.6 and 3.8, dense and MoE: Qwen3-Next's layers behind a vision tower."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    tied_embeddings,
    vocabulary,
)
from model_cards.architectures.qwen3_next import (
    decoder_layer,
    delta_net_state,
    gated_attention,
    gated_delta_net,
    layer_types,
    mtp,
    sparse_moe,
)
from model_cards.architectures.towers.qwen3_vl import vision_tower
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text, vision = config.text, config.section("vision_config")
    moe = "moe" in text.model_type
    types = layer_types(text)
    state = delta_net_state(text, text.state_dtype("mamba_ssm_dtype"))

    def layer(b: LayerBuilder, index: int) -> Layer:
        ffn = sparse_moe(b) if moe else b.gated_mlp(text.integer("intermediate_size"))
        if types[index] == "linear_attention":
            return decoder_layer(b, gated_delta_net(b, interleaved=False), ffn, state)
        return decoder_layer(b, gated_attention(b), ffn, b.cache())

    root = "model.language_model.layers" if vision is not None else "model.layers"
    active = text.integer("num_experts_per_tok") if moe else 0
    tied = tied_embeddings(text, config.boolean("tie_word_embeddings", False))
    embedding, head = vocabulary(text, scheme, tied=tied)
    heads = text.integer("mtp_num_hidden_layers", 0, minimum=0)
    return Body(
        embedding,
        assemble(text, scheme, layer, kind=lambda index: types[index], root=root),
        (Tensor("norm", (text.integer("hidden_size"),)),),
        head,
        (rotary_cache(text),),
        max_intermediate_size=(
            active * text.integer("moe_intermediate_size")
            if moe
            else text.integer("intermediate_size")
        ),
        experts_per_token=active,
        embedding_on_every_stage=True,
        towers=(vision_tower(vision, scheme),) if vision is not None else (),
        drafts=(mtp(text, scheme, moe=moe),) if heads else (),
    )
