"""Rows of 16-bit experts moved apart on ROCm, and what moving them leaves behind.

`_maybe_pad_weight` in fused_moe/unquantized_fused_moe_method.py (`VLLM_ROCM_MOE_PADDING`) puts 256
bytes after rows that are multiples of 512, first of gate and up together, then of down. The padded
down projection takes the block that gate and up have just left, the only free one that holds it;
torch's allocator can neither give the rest of that block back nor put the next layer's there.
"""

from __future__ import annotations

from typing import Final

from model_cards.modules import Experts
from model_cards.quantization.formats import Unquantized

_ROW: Final = 512
_GAP: Final = 256


def gaps_bytes(experts: Experts, count: int, intermediate: int, dtype_bytes: int) -> int:
    """Bytes between the rows of `count` experts of one layer, `intermediate` wide."""
    return count * sum(gaps for _, gaps in _matrices(experts, intermediate, dtype_bytes))


def stranded_bytes(experts: Experts, count: int, intermediate: int, dtype_bytes: int) -> int:
    """Bytes that `count` experts of one layer leave reserved, of use to nobody."""
    (up, up_gaps), (down, down_gaps) = _matrices(experts, intermediate, dtype_bytes)
    if not (up_gaps and down_gaps):
        return 0
    return count * max(0, up - down - down_gaps)


def _matrices(
    experts: Experts, intermediate: int, dtype_bytes: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """(bytes, bytes between the rows) of gate and up together and of down, of one expert."""

    def of(rows: int, inputs: int) -> tuple[int, int]:
        row = inputs * dtype_bytes
        apart = isinstance(experts.format, Unquantized) and row % _ROW == 0
        return rows * row, rows * _GAP if apart else 0

    up = of(len(experts.up_outputs) * intermediate, experts.hidden)
    return up, of(experts.hidden, intermediate)
