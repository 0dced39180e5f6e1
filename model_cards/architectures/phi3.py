"""Phi 3 and Phi 4: Llama's layers, with projections already fused in the checkpoint."""

from __future__ import annotations

from model_cards.architectures.decoder import Body
from model_cards.architectures.llama import build_named
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return build_named(config, scheme, ("qkv_proj",), ("gate_up_proj",))
