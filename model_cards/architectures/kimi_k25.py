"""Kimi K2.5 and later: a DeepSeek V3 language model behind a MoonViT."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import Body
from model_cards.architectures.deepseek import text_body
from model_cards.architectures.towers.moonvit import kimi_towers
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    body = text_body(config.text, scheme, root="language_model.", head="language_model.lm_head")
    return replace(body, towers=kimi_towers(config, scheme))
