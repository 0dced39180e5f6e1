"""MXFP4: 4-bit floats with a power-of-two scale for every 32 inputs.

vLLM's `mxfp4` (gpt-oss, Kimi K3) is for routed experts alone; the rest is unquantized.
"""

from __future__ import annotations

from collections.abc import Sequence

from model_cards.config import Config
from model_cards.quantization.formats import UNQUANTIZED, Stored, WeightFormat, ceil_div
from model_cards.quantization.scheme import QuantScheme

GROUP = 32


class Mxfp4(WeightFormat, frozen=True):
    """Two weights a byte, one scale byte for every 32 of a row.

    `quantized_input` checkpoints are made for activations in MXFP8.
    """

    quantized_input: bool = False

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return "mxfp4"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return "mxfp4"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return 4

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`."""
        out = sum(outputs)
        packed, scales = ceil_div(inputs, 2) * out, ceil_div(inputs, GROUP) * out
        return (Stored("weight", packed, packed), Stored("weight_scale", scales, scales))


class Mxfp4Scheme(QuantScheme):
    """`quant_method: mxfp4`."""

    method = "mxfp4"

    def __init__(self, config: Config) -> None:
        self.config = config

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return UNQUANTIZED

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`."""
        return Mxfp4(quantized_input=self.config.string("model_type", "") != "gpt_oss")
