"""Qwen 3 VL, dense and MoE: Qwen 3 behind a ViT that also feeds the first decoder layers."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import qwen3, qwen3_moe
from model_cards.architectures.decoder import Body, language_config
from model_cards.architectures.towers.qwen3_vl import deepstack_levels, vision_tower
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme

CHECKPOINT_NAMES = {
    "model.visual.": "visual.",
    "model.language_model.": "language_model.model.",
}


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    vision = config.section("vision_config")
    if vision is None:
        raise config.fail("vision_config", "an object")
    text = language_config(config, tied=False)
    text_body = qwen3_moe.text_body if "num_experts" in text else qwen3.text_body
    return replace(
        text_body(text, scheme, root="language_model."),
        towers=(vision_tower(vision, scheme, "visual"),),
        deepstack_levels=deepstack_levels(vision),
    )
