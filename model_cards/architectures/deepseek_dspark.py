"""DSpark in DeepSeek's own checkpoints: stages of the model's own layers behind the last one.

They write a block of tokens from the hidden states of some of the model's layers, with the model's
vocabulary matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from model_cards.architectures.decoder import LayerBuilder
from model_cards.architectures.dspark import confidence_head, markov_head
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard
from model_cards.quantization.scheme import QuantScheme

_STAGES: Final = 3


def has_dspark(config: Config) -> bool:
    """Whether a checkpoint drafts with DSpark, not with MTP layers."""
    return "dspark_target_layer_ids" in config


def dspark(
    config: Config,
    scheme: QuantScheme,
    layer: Callable[[LayerBuilder], Layer],
    *,
    head: Sequence[Module] = (),
    fused_wkv: bool = False,
) -> Draft:
    """The draft of stages that `layer` builds, with the `head` behind them.

    `fused_wkv`: vLLM holds the key projections of all stages once more, as one matrix.
    """
    stages = config.integer("n_mtp_layers", config.integer("num_nextn_predict_layers", _STAGES))
    builders = [LayerBuilder(config, scheme, f"mtp.{index}") for index in range(stages)]
    first, hidden = builders[0], config.integer("hidden_size")
    rank, rows = config.integer("dspark_markov_rank"), config.integer("vocab_size")
    read = len(config.integers("dspark_target_layer_ids"))
    modules: list[Module] = [
        first.replicated("main_proj", read * hidden, hidden),
        first.norm("main_norm"),
        first.norm("norm"),
        *head,
        *markov_head(rows, config.integer("draft_vocab_size", rows), rank),
    ]
    if fused_wkv:
        keys = [Output(f"wkv_{i}", config.head_size, stored=False) for i in range(stages)]
        modules.append(first.linear("context_wkv_proj", hidden, keys, Shard.REPLICATED))
    if config.boolean("enable_confidence_head", True):
        modules += confidence_head(hidden + rank, bias=False)
    return Draft(
        "dspark",
        tuple(layer(b) for b in builders),
        tuple(modules),
        hidden_size=hidden,
        index_topk=config.integer("index_topk"),
    )
