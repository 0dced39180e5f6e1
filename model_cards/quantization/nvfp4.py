"""NVFP4: 4-bit floats with an FP8 scale for every 16 inputs and one fp32 scale a tensor.

ModelOpt and compressed-tensors checkpoints hold the same tensors under other names.
"""

from __future__ import annotations

from collections.abc import Sequence

from model_cards.quantization.formats import Stored, WeightFormat


class Nvfp4(WeightFormat, frozen=True):
    """Packed 4-bit weights; `quantized_input` checkpoints also hold an activation scale."""

    group_size: int = 16
    quantized_input: bool = True

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return "nvfp4"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return "nvfp4"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return 4

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`; global scales are one fp32 a projection."""
        packed, each = inputs * sum(outputs) // 2, len(outputs)
        scales = inputs // self.group_size * sum(outputs)
        stored = [
            Stored("weight", packed, packed),
            Stored("weight_scale", scales, scales),
            Stored("weight_global_scale", each, 4 * each),
        ]
        if self.quantized_input:
            stored.append(Stored("input_scale", each, 4 * each))
        return tuple(stored)
