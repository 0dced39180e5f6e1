"""Gemma 3 with images: the text model behind SigLIP, image tokens attending to each other."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import gemma
from model_cards.architectures.decoder import Body, language_config
from model_cards.architectures.towers.siglip import siglip
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme

CHECKPOINT_NAMES = {
    "model.language_model.": "language_model.model.",
    "model.vision_tower.": "vision_tower.",
    "model.multi_modal_projector.": "multi_modal_projector.",
}


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text = language_config(config, tied=True)
    body = gemma.text_body(text, scheme, root="language_model.")
    return replace(body, towers=(_tower(config, scheme),), multimodal_prefix=True)


def _tower(config: Config, scheme: QuantScheme) -> Tower:
    """The encoder, and the norm and matrix that project its pooled output."""
    vision = config.section("vision_config")
    if vision is None:
        raise config.fail("vision_config", "an object")
    hidden = vision.integer("hidden_size", 768)
    projector: list[Module] = [
        Tensor("mm_soft_emb_norm", (hidden,)),
        Tensor("mm_input_projection", (hidden, config.text.integer("hidden_size"))),
    ]
    encoder = siglip(vision, scheme, "vision_tower.vision_model")
    return Tower("vision", (*encoder, *projector), data_parallel=False)
