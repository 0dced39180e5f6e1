"""Repositories that bring Python code of their own, and what vLLM then asks for.

vplan itself never runs any of it. vLLM reads a config whose `model_type` neither it nor
transformers knows by the repository's code (`auto_map`), and refuses to without
--trust-remote-code (`HFConfigParser` in transformers_utils/config.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from model_cards import ModelCard
from planner.engine.releases import read_data


def needs_remote_code(card: ModelCard) -> bool:
    """Whether vLLM cannot read the checkpoint's config without code of its repository."""
    if card.built_from is None:
        return False
    config = card.built_from[0]
    if not isinstance(config.raw("auto_map"), dict):
        return False
    return config.model_type not in read_data("config_types.json")["types"]


def remote_code_notes(card: ModelCard, trusted: bool) -> Iterator[str]:
    """What to say of it; nothing where --trust-remote-code was given."""
    if not trusted and needs_remote_code(card):
        yield (
            "vLLM will refuse it without --trust-remote-code: it is read by Python code of its "
            "repository, which that option runs; add it only if you trust the repository"
        )
