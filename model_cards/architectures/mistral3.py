"""Mistral Small 3.1, Ministral 3, Devstral 2: Mistral behind Pixtral's vision transformer."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import llama
from model_cards.architectures.decoder import Body, LayerBuilder, language_config
from model_cards.architectures.towers.pixtral import pixtral
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module
from model_cards.quantization.scheme import QuantScheme

CHECKPOINT_NAMES = {
    "model.language_model.": "language_model.model.",
    "model.vision_tower.": "vision_tower.",
    "model.multi_modal_projector.": "multi_modal_projector.",
    "model.": "language_model.model.",
}
_LANGUAGE_MODELS = frozenset({"mistral", "ministral3"})


def describes(config: Config) -> bool:
    """Whether the language model is one that vLLM has a class for."""
    return config.text.string("model_type", "mistral") in _LANGUAGE_MODELS


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text = language_config(config, tied=True)
    body = llama.text_body(text, scheme, root="language_model.")
    return replace(body, towers=(_tower(config, scheme),))


def _tower(config: Config, scheme: QuantScheme) -> Tower:
    """The encoder, and the projector that merges neighbouring patches."""
    vision = config.section("vision_config")
    if vision is None:
        raise config.fail("vision_config", "an object")
    hidden, out = vision.integer("hidden_size", 1024), config.text.integer("hidden_size")
    merged = hidden * config.integer("spatial_merge_size", 2) ** 2
    bias = config.boolean("multimodal_projector_bias", False)
    b = LayerBuilder(vision.merged({"hidden_size": hidden}), scheme, "multi_modal_projector")
    projector: list[Module] = [
        b.norm("norm"),
        b.replicated("patch_merger.merging_layer", merged, hidden, quantized=False),
        b.column("linear_1", hidden, out, bias=bias),
        b.row("linear_2", out, out, bias=bias),
    ]
    layers = _layers_used(config, vision.integer("num_hidden_layers", 24))
    encoder = pixtral(vision, scheme, "vision_tower", layers=layers)
    return Tower("vision", (*encoder, *projector), data_parallel=False)


def _layers_used(config: Config, layers: int) -> int:
    """Layers of the encoder up to the last one whose output is used; negative from the end."""
    chosen = config.raw("vision_feature_layer")
    chosen = -1 if chosen is None else chosen
    indices = chosen if isinstance(chosen, list) else [chosen]
    if not indices or not all(type(index) is int and abs(index) <= layers for index in indices):
        raise config.fail("vision_feature_layer", f"layers of an encoder that has {layers}")
    return max(layers + index + 1 if index < 0 else index for index in indices)
