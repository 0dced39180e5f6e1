"""Kimi K2.5 and later: a DeepSeek V3 language model behind a MoonViT."""

from __future__ import annotations

from dataclasses import replace

from model_cards.architectures.decoder import Body
from model_cards.architectures.deepseek import text_body
from model_cards.architectures.towers.moonvit import vision_tower
from model_cards.config import Config
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text, vision = config.text, config.section("vision_config")
    body = text_body(text, scheme, root="language_model.", head="language_model.lm_head")
    if vision is None:
        return body
    # vLLM's class leaves the tower of a compressed-tensors checkpoint unquantized.
    of_tower = NO_QUANTIZATION if scheme.method == "compressed-tensors" else scheme
    tower = vision_tower(vision, of_tower, text.integer("hidden_size"))
    return replace(body, towers=(tower,))
