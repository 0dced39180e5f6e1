"""generation_config.json of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from model_cards.config import Config, read_json_object
from model_cards.errors import CardError
from model_cards.generation import Generation


def read_generation(path: Path | None) -> Generation:
    """Its settings, none for a file that is missing or broken: no reason to refuse a model."""
    if path is None:
        return Generation()
    try:
        values = Config(read_json_object(path), path.name)
        min_p = values.raw("min_p")
        known = type(min_p) in (int, float) and 0 < min_p <= 1
        limit = values.optional_integer("max_new_tokens")
    except CardError:
        return Generation()
    return Generation(limit, float(min_p) if known else None)
