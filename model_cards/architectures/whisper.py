"""Whisper: an audio encoder, and a decoder that attends to what the encoder made of the sound."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import Body, LayerBuilder, assemble
from model_cards.architectures.towers.whisper import whisper_encoder
from model_cards.caches import AttentionKind
from model_cards.card import Layer, Tower
from model_cards.config import Config
from model_cards.modules import Embedding, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, intermediate = config.integer("d_model"), config.integer("decoder_ffn_dim")
    heads = config.integer("decoder_attention_heads")
    decoder = config.merged(
        {"num_hidden_layers": config.integer("decoder_layers"), "num_attention_heads": heads}
    )

    def layer(b: LayerBuilder, index: int) -> Layer:
        own = b.cache()
        return Layer(
            (
                *b.attention(out="out_proj", qkv_bias=True, o_bias=True),
                b.layer_norm("self_attn_layer_norm"),
                *_cross_attention(b, heads),
                b.layer_norm("encoder_attn_layer_norm"),
                *b.plain_mlp(intermediate, "fc1", "fc2", bias=True),
                b.layer_norm("final_layer_norm"),
            ),
            (own, replace(own, kind=AttentionKind.CROSS)),
        )

    encoder = Tower(
        "audio encoder",
        tuple(whisper_encoder(config, scheme, "model.encoder")),
        data_parallel=False,
    )
    positions = config.integer("max_target_positions")
    return Body(
        Embedding("decoder.embed_tokens", config.integer("vocab_size"), hidden, replicated=True),
        assemble(decoder, scheme, layer, root="model.decoder.layers"),
        (Tensor("decoder.embed_positions", (positions, hidden)), Tensor("layer_norm", (2, hidden))),
        None,
        (),
        max_intermediate_size=intermediate,
        towers=(encoder,),
    )


def _cross_attention(b: LayerBuilder, heads: int) -> list[Module]:
    """Queries of the decoder, keys and values of the encoder's output."""
    size = b.hidden // heads
    keys = [Output(name, heads, size) for name in ("k_proj", "v_proj")]
    own = b.attention("encoder_attn", out="out_proj", qkv_bias=True, o_bias=True)
    return [
        b.column("encoder_attn.q_proj", b.hidden, b.hidden, bias=True),
        b.linear(
            "encoder_attn.kv_proj",
            b.hidden,
            keys,
            Shard.COLUMN,
            bias=True,
            parts=("k_proj", "v_proj"),
        ),
        *own[1:],  # the output projection and the scales are those of any attention
    ]
