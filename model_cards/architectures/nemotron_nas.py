"""Nemotron Super and Ultra from architecture search: Llama's layers, each of its own shape.

`block_configs` says for every layer how many heads share a KV head and how wide the MLP is, or
that it has no attention or no MLP at all.
"""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    decoder,
)
from model_cards.caches import Cache
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module
from model_cards.quantization.scheme import QuantScheme

_WIDTH_MULTIPLE = 256


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    bias = config.boolean("attention_bias", False)
    mlp_bias = config.boolean("mlp_bias", False)
    blocks = config.sections("block_configs")
    if len(blocks) != config.num_layers:
        raise config.fail("block_configs", f"one entry for each of {config.num_layers} layers")
    kv_heads = [_kv_heads(config, block) for block in blocks]
    widths = [_mlp_width(config, block) for block in blocks]

    def layer(b: LayerBuilder, index: int) -> Layer:
        modules: list[Module] = []
        caches: tuple[Cache, ...] = ()
        if heads := kv_heads[index]:
            modules += b.attention(qkv_bias=bias, o_bias=bias, kv_heads=heads)
            modules.append(b.norm("input_layernorm"))
            caches = (b.cache(kv_heads=heads),)
        if width := widths[index]:
            modules += b.gated_mlp(width, bias=mlp_bias)
            modules.append(b.norm("post_attention_layernorm"))
        return Layer(tuple(modules), caches)

    return decoder(
        config,
        scheme,
        layer,
        kind=lambda index: (kv_heads[index], widths[index]),
        width=max(widths),
    )


def _part(block: Config, name: str) -> Config:
    section = block.section(name)
    if section is None:
        raise block.fail(name, "an object")
    return section


def _kv_heads(config: Config, block: Config) -> int:
    """KV heads of a layer, 0 without attention."""
    attention = _part(block, "attention")
    if attention.boolean("no_op", False):
        return 0
    return config.integer("num_attention_heads") // attention.integer("n_heads_in_group")


def _mlp_width(config: Config, block: Config) -> int:
    """Intermediate size of a layer, 0 without an MLP: two thirds of a multiple, rounded up."""
    ffn = _part(block, "ffn")
    if ffn.boolean("no_op", False):
        return 0
    if "ffn_mult" not in ffn:
        return ffn.integer("intermediate_size")
    width = int(2 * ffn.number("ffn_mult") * config.integer("hidden_size") / 3)
    return -(-width // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE
