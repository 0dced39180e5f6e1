"""Phi 3 and Phi 4: Llama's layers, with projections already fused in the checkpoint."""

from __future__ import annotations

from model_cards.architectures import llama
from model_cards.architectures.decoder import Body
from model_cards.config import Config
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(config: Config, scheme: QuantScheme, *, root: str = "") -> Body:
    """The language model, whose modules have paths below `root`."""
    return llama.text_body(config, scheme, root=root, qkv=("qkv_proj",), gate_up=("gate_up_proj",))
