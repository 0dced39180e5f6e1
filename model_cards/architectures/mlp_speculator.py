"""MLP speculators: stages that each draft from the one before and the token it drafted.

A stage embeds the token, projects the state before it, normalizes, and has an output head. With
`tie_weights` all stages share one of each, but for the first projection, which takes the target's
hidden states. Only the vocabulary matrices are split over ranks; nothing is quantized or cached.
From model_executor/models/mlp_speculator.py of vLLM 0.9.2, the last release that runs them.
"""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Embedding, Module
from model_cards.quantization.scheme import QuantScheme

_TOP_K = (5, 4, 3)  # vLLM's default: it fits no other number of stages


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`; a layer is a stage, the first has what all share.

    There is nothing outside of them.
    """
    width, rows = config.integer("emb_dim"), config.integer("vocab_size")
    inner = config.integer("inner_dim", 0, minimum=0) or width
    stages = config.integer("n_predict")
    tied = config.boolean("tie_weights", False)
    top = LayerBuilder(config, scheme, "speculator")
    embedding, output = Embedding("emb", rows, inner), Embedding("head", rows, inner)
    norm = top.layer_norm("ln", inner)
    first = top.replicated("proj.0", width, inner, quantized=False)
    further = top.replicated("proj", inner, inner, quantized=False)
    layers: list[tuple[Module, ...]] = [(embedding, first, norm, output)]
    for stage in range(1, stages):
        if not tied:
            layers.append((embedding, further, norm, output))
        else:
            layers.append((further,) if stage == 1 else ())
    return Body(
        Embedding("none", 0, width),
        tuple(Layer(modules, ()) for modules in layers),
        (),
        None,
        (),
        max_intermediate_size=inner,
        unreadable=_problem(config, stages, tied=tied),
    )


def _problem(config: Config, stages: int, *, tied: bool) -> str | None:
    """What vLLM's classes stop at."""
    if len(config.integers("top_k_tokens_per_head") or _TOP_K) != stages:
        return f"top_k_tokens_per_head must have n_predict ({stages}) entries"
    if tied and stages == 1:
        return "tie_weights needs more than one stage"
    return None
