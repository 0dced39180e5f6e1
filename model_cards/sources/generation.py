"""generation_config.json: of its settings only what limits an answer is of concern to a plan."""

from __future__ import annotations

from pathlib import Path

from model_cards.config import Config, read_json_object
from model_cards.errors import CardError


def read_answer_limit(path: Path | None) -> int | None:
    """`max_new_tokens`, by which vLLM caps every answer; None if there is none to be read."""
    if path is None:
        return None
    try:
        return Config(read_json_object(path), path.name).optional_integer("max_new_tokens")
    except CardError:  # sampling defaults are no reason to refuse a model
        return None
