"""The checkpoints one can serve of a model: its own and the quantized ones."""

from __future__ import annotations

from typing import Final

from model_cards.sources.bundled import find_entry, variants_of
from planner.recommendation.quality import base_of, rated_copies

# Bytes of a parameter by the snapshot's name of a layout; 4 bit where it is none of these.
_PRESET_BYTES: Final = {
    "fp8-dynamic": 1.0,
    "fp8-static": 1.0,
    "fp8-block": 1.0,
    "modelopt-fp8": 1.0,
    "w8a8": 1.0,
    "gptq-int8": 1.0,
}
SMALLEST_BYTES: Final = 0.5  # no format in use takes less


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


def least_bytes(model_id: str) -> float:
    """Bytes of a parameter that a checkpoint takes at least, known before its card is built."""
    entry = find_entry(model_id)
    if entry is not None and not entry.quantized:
        return 2.0
    preset = entry.preset if entry is not None else None
    return _PRESET_BYTES.get(preset or "", SMALLEST_BYTES)
