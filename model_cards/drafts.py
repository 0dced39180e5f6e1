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
# Methods whose layers are heads that share no matrix with the target and write no KV cache.
SELF_CONTAINED: Final = frozenset({"medusa", "mlp_speculator"})
# What vLLM's classes of these configs take for absent keys.
_MEDUSA: Final = {
    "architectures": ["MedusaModel"],
    "hidden_size": 4096,
    "vocab_size": 32001,
    "num_heads": 5,
    "num_hidden_layers": 1,
}
_MLP_SPECULATOR: Final = {"vocab_size": 32000, "emb_dim": 4096, "n_predict": 3}
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
    if "medusa_num_heads" in config:
        return "medusa"
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
    if method == "medusa":
        return _medusa_config(config)
    if method == "mlp_speculator":
        own = {key: config.raw(key) for key in config if key in config}
        width = config.integer("emb_dim", 4096)
        return config.merged({**_MLP_SPECULATOR, **own, "hidden_size": width})
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


def _medusa_config(config: Config) -> Config:
    """A Medusa config as `MedusaConfig` reads it: it counts heads and layers by any such name.

    Files of Medusa's first version say two heads and hold five, as its own loader knows.
    """
    own = {key: config.raw(key) for key in config if key in config}
    if "medusa_num_heads" in config:
        own["medusa_num_heads"] = max(5, config.integer("medusa_num_heads"))
    for key in [key for key in own if "num" in key]:
        if "heads" in key:
            own["num_heads"] = own.pop(key)
        elif "layers" in key:
            own["num_hidden_layers"] = own.pop(key)
    return Config({**_MEDUSA, **own}, config.where, complete=config.complete)


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
        hidden_size=card.hidden_size,
        vocab_size=card.vocab_size,
        unreadable=card.unreadable,
    )
