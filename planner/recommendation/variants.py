"""The checkpoints one can serve of a model: its own and the quantized ones."""

from __future__ import annotations

from model_cards.sources.bundled import find_entry, variants_of
from planner.recommendation.quality import base_of, rated_copies


def checkpoint_ids(base: str) -> list[str]:
    """Ids of the bundled checkpoints of a model, itself first."""
    known = [base, *rated_copies().get(base.lower(), []), *variants_of(base)]
    return [name for name in dict.fromkeys(known) if find_entry(name) is not None]


def base_id(model_id: str) -> str:
    """The model that a checkpoint is a quantized copy of, else the checkpoint itself."""
    rated = base_of().get(model_id.lower())
    if rated is not None:
        return rated
    entry = find_entry(model_id)
    if entry is not None and entry.kind == "variant" and entry.base is not None:
        return entry.base
    return entry.model_id if entry is not None else model_id
