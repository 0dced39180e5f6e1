"""Bytes of one element by torch dtype name."""

from __future__ import annotations

DTYPE_BYTES: dict[str, int] = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}

_ALIASES = {"half": "float16", "float": "float32", "fp16": "float16", "bf16": "bfloat16"}


def normalize_dtype(name: str) -> str | None:
    """`torch.bfloat16`, `half`, ... to the name used here; None if it is no known dtype."""
    name = name.removeprefix("torch.").lower()
    name = _ALIASES.get(name, name)
    return name if name in DTYPE_BYTES else None
