"""safetensors headers: exact totals of a checkpoint without reading a weight.

A file begins with 8 bytes (little endian) giving the length of a JSON header that lists every
tensor with dtype, shape and byte range (the safetensors format's specification).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from model_cards.config import parse_json_object, shorten
from model_cards.errors import BadConfig

_MAX_HEADER_BYTES: Final = 100 * 2**20  # the format's own limit
# Bits of one element by safetensors dtype name.
BITS: Final = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


# Dtypes whose elements are the model's parameters, one for one, neither packed nor scaled.
_PLAIN: Final = frozenset({"F64", "F32", "BF16", "F16"})


@dataclass(frozen=True, slots=True)
class Totals:
    """What the tensors of a checkpoint add up to."""

    bytes: int
    parameters: int | None  # logical ones; None where some are packed or have scales


def totals(counts: Mapping[str, int]) -> Totals:
    """Totals of tensors with so many elements of each dtype."""
    bits = sum(count * BITS[dtype] for dtype, count in counts.items())
    return Totals(bits // 8, sum(counts.values()) if counts.keys() <= _PLAIN else None)


def totals_of(files: Iterable[Path]) -> Totals:
    """Totals of some safetensors files together."""
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(element_counts(read_header(file), file.name))
    return totals(counts)


def read_header(file: Path) -> dict[str, Any]:
    """The JSON header of one file; `BadConfig` if it is no safetensors file."""
    try:
        with file.open("rb") as stream:
            prefix = stream.read(8)
            if len(prefix) < 8:
                raise BadConfig(f"{file.name} is too short to be a safetensors file")
            (length,) = struct.unpack("<Q", prefix)
            if length > _MAX_HEADER_BYTES:
                raise BadConfig(f"{file.name}: its header claims {length} bytes; not read")
            header = stream.read(length)
    except OSError as error:
        raise BadConfig(f"Cannot read {file}: {error.strerror or error}") from None
    if len(header) < length:
        raise BadConfig(f"{file.name} is truncated inside its header")
    return parse_json_object(header, f"the header of {file.name}")


def element_counts(header: Mapping[str, Any], name: str) -> Counter[str]:
    """Elements of each dtype among the tensors that a header lists."""
    counts: Counter[str] = Counter()
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            continue
        if not isinstance(entry, dict):
            raise BadConfig(f"the header of {name}: {shorten(tensor)} is no tensor entry")
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if (
            not isinstance(dtype, str)
            or dtype not in BITS
            or not isinstance(shape, list)
            or not all(type(n) is int and 0 <= n < 2**40 for n in shape)
        ):
            raise BadConfig(
                f"the header of {name}: {shorten(tensor)} has dtype {shorten(dtype)} and shape "
                f"{shorten(shape)}"
            )
        counts[dtype] += prod(shape)
    return counts
