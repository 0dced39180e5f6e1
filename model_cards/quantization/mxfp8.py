"""MXFP8: 8-bit floats with a power-of-two scale for every 32 inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from model_cards.quantization.formats import Stored, WeightFormat, ceil_div

GROUP: Final = 32


class Mxfp8(WeightFormat, frozen=True):
    """One byte a weight, one scale byte for every 32 of a row."""

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return "mxfp8"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return "fp8"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return 8

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`."""
        out = sum(outputs)
        weights, scales = inputs * out, ceil_div(inputs, GROUP) * out
        return (Stored("weight", weights, weights), Stored("weight_scale", scales, scales))
