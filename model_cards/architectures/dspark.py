"""DSpark drafts: DFlash's layers, and heads that correct and judge the block of tokens they write.

A Markov head adds to the logits of a token what the token before it makes likely, by two matrices
of a low rank; a confidence head tells how many tokens to keep. vLLM holds both whole on every rank.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import dflash
from model_cards.architectures.decoder import Body
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme


def describes(config: Config) -> bool:
    """Drafts with Qwen 3's layers; those of DeepSeek V4 come with its checkpoint."""
    return config.model_type == "qwen3"


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    body = dflash.build(config, scheme)
    assert body.lm_head is not None
    settings, unreadable = config, None
    if "markov_rank" not in config:  # SpecForge keeps DSpark's settings among DFlash's
        settings = config.section("dflash_config") or config
        unreadable = "it looks for markov_rank beside dflash_config, not inside"
    rank = settings.integer("markov_rank")
    heads = markov_head(config.integer("vocab_size"), body.lm_head.rows, rank)
    if settings.boolean("enable_confidence_head", False):
        sees_markov = settings.boolean("confidence_head_with_markov", False)
        inputs = config.integer("hidden_size") + (rank if sees_markov else 0)
        heads += confidence_head(inputs, bias=True)
    return replace(body, beside=(*body.beside, *heads), unreadable=unreadable)


def markov_head(rows: int, own_rows: int, rank: int) -> tuple[Module, ...]:
    """A vector for every token, and what it adds to every logit."""
    return (
        Tensor("markov_head.markov_w1", (rows, rank)),
        Tensor("markov_head.markov_w2", (own_rows, rank)),
    )


def confidence_head(inputs: int, *, bias: bool) -> tuple[Module, ...]:
    """One output, in fp32."""
    weight = Tensor("confidence_head.proj.weight", (inputs,), "float32")
    return (weight, Tensor("confidence_head.proj.bias", (1,), "float32")) if bias else (weight,)
