"""Medusa: heads side by side on the target's last hidden state, each for one token further ahead.

A head is a few residual layers, whole on every rank, and an output head that is split over the
vocabulary, or shared by all heads (`original_lm_head`). None has an embedding, a KV cache or
quantized weights. From model_executor/models/medusa.py of vLLM 0.32.0.
"""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Embedding
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`; a layer is a head, the first has the output that all share.

    There is nothing outside of them.
    """
    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    truncated = config.integer("truncated_vocab_size", rows)
    shared = config.boolean("original_lm_head", False)
    bias = config.boolean("medusa_fc_bias", False)
    top = LayerBuilder(config, scheme, "blocks")
    block = tuple(
        top.replicated(f"layers.{index}", hidden, hidden, bias=bias, quantized=False)
        for index in range(config.num_layers)
    )
    output = Embedding("lm_head", truncated if shared else rows, hidden)
    first = Layer((*block, output), ())
    further = Layer(block, ()) if shared else first
    unreadable = None
    if truncated < rows and not shared:
        unreadable = "its output heads have more rows than its truncated vocabulary"
    return Body(
        Embedding("none", 0, hidden),
        (first, *(further,) * (config.integer("num_heads") - 1)),
        (),
        None,
        (),
        max_intermediate_size=hidden,
        unreadable=unreadable,
    )
