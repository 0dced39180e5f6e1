"""The checkpoints one can serve of a model: its own and the quantized ones."""

from __future__ import annotations

from typing import Final

from model_cards.sources.bundled import find_entry, variants_of
from planner.recommendation.quality import base_of, rated_copies

# Weight format by the snapshot's name of a layout.
_PRESET_FORMATS: Final = {
    "fp8-dynamic": "fp8",
    "fp8-static": "fp8",
    "fp8-block": "fp8",
    "modelopt-fp8": "fp8",
    "w8a8": "w8a8",
    "gptq-int8": "int8",
    "nvfp4": "nvfp4",
    "modelopt-nvfp4": "nvfp4",
    "awq": "int4",
    "gptq-int4": "int4",
    "w4a16": "int4",
}
_ONE_BYTE: Final = frozenset({"fp8", "w8a8", "int8"})
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
    if entry is not None and entry.quant_method == "fp8":
        return 1.0
    return 1.0 if usual_format(model_id) in _ONE_BYTE else SMALLEST_BYTES


def usual_format(model_id: str) -> str | None:
    """Weight format of a checkpoint known by name alone; None of one with a config."""
    entry = find_entry(model_id)
    return _PRESET_FORMATS.get(entry.preset or "") if entry is not None else None
