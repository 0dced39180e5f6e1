"""Checkpoints that only draft for another: which method they are of, and how vLLM reads them."""

from __future__ import annotations

from typing import Final

from model_cards.card import Draft, Head, ModelCard
from model_cards.config import Config

# Architectures that say what they are.
_METHODS: Final = (
    ("eagle3", ("Eagle3", "Eagle3Draft", "Eagle3Speculator", "PEagle", "Peagle")),
    ("eagle", ("Eagle",)),
    ("dflash", ("DFlash",)),
    ("dspark", ("DSpark", "Qwen3DSpark")),
    ("medusa", ("Medusa",)),
    ("mlp_speculator", ("MLPSpeculator",)),
)
_SPECULATORS_ARCHITECTURES: Final = {
    "eagle3": "Eagle3LlamaForCausalLM",
    "peagle": "PeagleLlamaForCausalLM",
    "dflash": "DFlashDraftModel",
    "dspark": "Qwen3DSparkModel",
}


def draft_method(config: Config) -> str | None:
    """The speculative method a config is a head of, None for a model of its own."""
    speculators = config.section("speculators_config")
    if speculators is not None:
        algorithm = speculators.string("algorithm", "")
        return "eagle3" if algorithm == "peagle" else algorithm or None
    for name in config.architectures:
        if name.endswith("Eagle3"):
            return "eagle3"
        for method, beginnings in _METHODS:
            if name.startswith(beginnings):
                return method
    if "draft_vocab_size" in config or "truncated_vocab_size" in config or "eagle_config" in config:
        return "eagle3"
    return None


def head_config(config: Config, method: str) -> Config:
    """The config of a head as vLLM sees it: flat, and under the name of its own class.

    Speculators checkpoints nest the layers' config; EAGLE ones are named as what they are made of.
    """
    layers = config.section("transformer_layer_config")
    if layers is not None:
        speculators = config.section("speculators_config")
        algorithm = speculators.string("algorithm", method) if speculators else method
        own = {key: config.raw(key) for key in config if key != "transformer_layer_config"}
        known = _SPECULATORS_ARCHITECTURES.get(algorithm)
        names = [known] if known is not None else [*config.architectures]
        return layers.merged({**own, "architectures": names})
    if method not in ("eagle", "eagle3"):
        return config
    prefix = "Eagle3" if method == "eagle3" else "Eagle"
    names = [
        name
        if name.startswith(("Eagle", "PEagle", "Peagle")) or name.endswith("Eagle3")
        else f"{prefix}{name}"
        for name in config.architectures
    ]
    return config.merged({"architectures": names})


def as_draft(card: ModelCard, method: str) -> Draft:
    """A checkpoint of its own as the draft of another.

    A whole model keeps its vocabulary matrices; a head has those its checkpoint holds.
    """
    head = card.head or Head(method, own_embedding=True, own_lm_head=True)
    return Draft(
        method,
        card.layers,
        (*card.final, *card.beside),
        card.embedding,
        card.lm_head,
        own_embedding=head.own_embedding,
        own_lm_head=head.own_lm_head and card.lm_head is not None,
        rotary=card.rotary,
        towers=card.towers,
        buffers_bytes=card.buffers_bytes,
        hidden_size=card.hidden_size,
        vocab_size=card.vocab_size,
        unreadable=card.unreadable,
    )
