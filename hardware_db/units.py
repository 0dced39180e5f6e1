"""Byte sizes as people write them."""

from __future__ import annotations

import re

from hardware_db.errors import quoted

KIB = 2**10
MIB = 2**20
GIB = 2**30

# A bare letter is binary, as in `vllm serve --kv-cache-memory-bytes 20G` and `docker run -m 20g`.
_FACTORS = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("m", "mib"), MIB),
    **dict.fromkeys(("g", "gib"), GIB),
    **dict.fromkeys(("t", "tib"), 2**40),
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_SMALLEST = MIB
_LARGEST = 2**50


def parse_size(text: str) -> int:
    """Bytes of ``"22GiB"``, ``"20G"`` (GiB), ``"24GB"`` (10**9), ``"24064MiB"`` or plain bytes.

    Raises ``ValueError`` (one line) for anything else and for sizes no memory has: below 1 MiB,
    which is nearly always a forgotten unit, or above 1 PiB.
    """
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([a-zA-Z]*)", text.strip())
    factor = _FACTORS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{quoted(text)} is not a memory size")
    size = round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor
    if size < _SMALLEST:
        raise ValueError(f"{quoted(text)} is below 1 MiB (unit missing?)")
    if size > _LARGEST:
        raise ValueError(f"{quoted(text)} is more than any machine has")
    return size


def exact_size(size: int) -> str:
    """``size`` bytes as the shortest text that :func:`parse_size` reads back unchanged."""
    for factor, unit in ((GIB, "GiB"), (MIB, "MiB")):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def gib(size: int) -> str:
    """``size`` bytes for people: ``"23.56 GiB"``."""
    return f"{size / GIB:.2f} GiB"
