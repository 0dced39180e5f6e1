"""Kimi K3: a Kimi Linear language model behind a MoonViT."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import Body
from model_cards.architectures.kimi_linear import text_body
from model_cards.architectures.towers.moonvit import kimi_towers
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    body = text_body(config.text, scheme, root="language_model.")
    return replace(body, towers=kimi_towers(config, scheme))
