"""Falcon: attention and MLP side by side, one or few KV heads, an MLP of four times the width."""

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


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden = config.integer("hidden_size")
    intermediate = 4 * hidden
    bias = config.boolean("bias", False)
    kv_heads = _kv_heads(config)
    norms = _norms(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        # vLLM hands these layers no cache settings: `--kv-cache-dtype` does not reach them.
        cache = replace(b.cache(kv_heads=kv_heads), follows_cache_dtype=False)
        return Layer(
            (
                *b.attention(
                    "self_attention",
                    qkv="query_key_value",
                    out="dense",
                    qkv_bias=bias,
                    o_bias=bias,
                    parts=("query_key_value",),
                    kv_heads=kv_heads,
                ),
                *b.plain_mlp(intermediate, "dense_h_to_4h", "dense_4h_to_h", bias=bias),
                *(b.layer_norm(name) for name in norms),
            ),
            (cache,),
        )

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, True))
    return Body(
        embedding,
        assemble(config, scheme, layer, root="transformer.h"),
        (Tensor("transformer.ln_f", (2, hidden)),),
        head,
        () if config.boolean("alibi", False) else (rotary_cache(config),),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )


def _kv_heads(config: Config) -> int:
    heads = config.integer("num_attention_heads")
    if config.boolean("new_decoder_architecture", False):
        return config.integer("num_kv_heads", heads)
    return 1 if config.boolean("multi_query", True) else heads


def _norms(config: Config) -> tuple[str, ...]:
    """Attention and MLP share a norm, or have one each."""
    if not config.boolean("parallel_attn", True):
        return ("input_layernorm", "post_attention_layernorm")
    usual = 2 if config.boolean("new_decoder_architecture", False) else 1
    if config.integer("num_ln_in_parallel_attn", usual) == 2:
        return ("ln_attn", "ln_mlp")
    return ("input_layernorm",)
