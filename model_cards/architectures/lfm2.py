"""LFM 2: short convolutions behind gates, with attention in between."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    vocabulary,
)
from model_cards.caches import RecurrentState, StateKind
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.formats import ceil_div
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, intermediate = config.integer("hidden_size"), _intermediate(config)
    attends = _attention_layers(config)
    state = RecurrentState(
        StateKind.SHORT_CONV,
        conv_channels=_channels(config),
        conv_kernel=config.integer("conv_L_cache", 3),
    )

    def layer(b: LayerBuilder, index: int) -> Layer:
        attention = index in attends
        mixer = b.attention(qk_norm=True, out="out_proj") if attention else _short_convolution(b)
        return Layer(
            (
                *mixer,
                *b.gated_mlp(intermediate, "feed_forward", parts=("w1", "w3"), down="w2"),
                b.norm("operator_norm"),
                b.norm("ffn_norm"),
            ),
            (b.cache() if attention else state,),
        )

    # vLLM ties the embeddings whatever the config says.
    embedding, head = vocabulary(config, scheme, tied=True)
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: index in attends),
        (Tensor("model.embedding_norm", (hidden,)),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
    )


def _attention_layers(config: Config) -> frozenset[int]:
    """Indices of the layers with attention: all, unless the config says otherwise."""
    types = config.strings("layer_types")
    if types:
        if len(types) != config.num_layers:
            raise config.fail("layer_types", f"one entry for each of {config.num_layers} layers")
        return frozenset(i for i, kind in enumerate(types) if kind == "full_attention")
    if "full_attn_idxs" not in config:
        return frozenset(range(config.num_layers))
    return frozenset(config.integers("full_attn_idxs"))


def _intermediate(config: Config) -> int:
    """Width of the MLP: two thirds of the configured one, times a factor, rounded up."""
    size = config.integer("block_ff_dim", config.integer("intermediate_size", 12288))
    if not config.boolean("block_auto_adjust_ff_dim", True):
        return size
    size = int(config.number("block_ffn_dim_multiplier", 1.0) * int(2 * size / 3))
    multiple = config.integer("block_multiple_of", 256)
    return ceil_div(size, multiple) * multiple


def _channels(config: Config) -> int:
    return config.integer("conv_dim", config.integer("hidden_size"))


def _short_convolution(b: LayerBuilder) -> list[Module]:
    """vLLM's `ShortConv`: two gates and the input of a convolution over a few tokens."""
    channels, bias = _channels(b.config), b.config.boolean("conv_bias", False)
    kernel = b.config.integer("conv_L_cache", 3)
    gates = [Output("B", channels), Output("C", channels), Output("x", channels)]
    conv = [Output("conv", channels)]
    return [
        b.linear("conv.conv", kernel, conv, Shard.COLUMN, bias=bias, quantized=False),
        b.linear("conv.in_proj", channels, gates, Shard.COLUMN, bias=bias),
        b.row("conv.out_proj", channels, channels, bias=bias),
    ]
