"""Encoders with BERT's layers and rotary positions: Nomic Embed, GTE and Snowflake's Arctic Embed.

vLLM's `BertWithRope`.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import Body, LayerBuilder, assemble
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import (
    AS_LONG_AS_PROMPTS,
    NO_HEAD,
    Embedding,
    Linear,
    Module,
    RotaryCache,
    Tensor,
)
from model_cards.pooling import PoolingClass, fp32_linear, read_pooling
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, intermediate = config.integer("hidden_size"), config.integer("intermediate_size")
    gte = config.model_type != "nomic_bert"
    bias = config.boolean("qkv_proj_bias", gte)
    positions = config.integer("max_position_embeddings")
    gated = gte or config.string("activation_function", "swiglu") == "swiglu"

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention("attn", out="out_proj", qkv_bias=bias, o_bias=bias, parts=("Wqkv",)),
                b.layer_norm("attn_ln"),
                *_mlp(b, intermediate, bias=bias, gated=gated, gte=gte),
                b.layer_norm("mlp_ln"),
            ),
            (b.encoder_attention(),),
        )

    beside: list[Module] = [Tensor("embeddings.LayerNorm", (2, hidden))]
    segments = config.integer("type_vocab_size", 0, minimum=0)
    if segments:
        beside.append(Embedding("embeddings.token_type_embeddings", segments, hidden))
    pooling = PoolingClass(_scores(config), "CLS")
    if _scores(config):
        labels = read_pooling(config, pooling, None).labels
        beside.append(fp32_linear("pooler.dense", hidden, hidden))
        beside.append(fp32_linear("classifier", hidden, labels))
    return Body(
        Embedding("embeddings.word_embeddings", config.integer("vocab_size"), hidden),
        assemble(config, scheme, layer, root="encoder.layers"),
        (),
        NO_HEAD,
        (RotaryCache(positions if gte else AS_LONG_AS_PROMPTS, config.head_size),),
        max_intermediate_size=intermediate,
        beside=tuple(beside),
        pooling=pooling,
    )


def describes(config: Config) -> bool:
    """Not Nomic's experts."""
    return not config.integer("moe_every_n_layers", 0, minimum=0)


def _scores(config: Config) -> bool:
    return config.architectures[0].endswith("ForSequenceClassification")


def _mlp(b: LayerBuilder, intermediate: int, *, bias: bool, gated: bool, gte: bool) -> list[Module]:
    if not gated:
        return b.plain_mlp(intermediate, "up_proj", "down_proj", bias=bias)
    up, down = b.gated_mlp(intermediate, bias=bias)
    assert isinstance(up, Linear)
    return [replace(up, bias=False) if gte else up, down]
