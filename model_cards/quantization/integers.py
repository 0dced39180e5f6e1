"""Integer weights of compressed-tensors: packed 4/8-bit (W4A16) and plain int8 (W8A8)."""

from __future__ import annotations

from collections.abc import Sequence

from model_cards.quantization.formats import Stored, WeightFormat, ceil_div


class PackedInt(WeightFormat, frozen=True):
    """Weight-only integers packed into int32, scales in the model's dtype."""

    bits: int
    group_size: int  # -1: one scale per output channel
    symmetric: bool
    act_order: bool = False

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        group = "channel" if self.group_size < 0 else f"g{self.group_size}"
        return f"int{self.bits} {group}"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return f"int{self.bits}"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return self.bits

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`."""
        out = sum(outputs)
        groups = inputs // self.group_size if self.group_size > 0 else 1
        weight, scales = out * ceil_div(inputs * self.bits, 32), groups * out
        stored = [
            Stored("weight_packed", weight, 4 * weight),
            Stored("weight_scale", scales, dtype_bytes * scales),
            Stored("weight_shape", 2, 16),  # int64, one pair a fused layer
        ]
        if not self.symmetric:
            zeros = groups * ceil_div(out * self.bits, 32)
            stored.append(Stored("weight_zero_point", zeros, 4 * zeros))
        return tuple(stored)


class Int8(WeightFormat, frozen=True):
    """Int8 weights and activations (W8A8)."""

    per_channel: bool
    static_input: bool = False
    input_symmetric: bool = True

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return "int8 w8a8"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return "w8a8"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return 8

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`."""
        weight = inputs * sum(outputs)
        scales = sum(outputs) if self.per_channel else len(outputs)
        stored = [Stored("weight", weight, weight), Stored("weight_scale", scales, 4 * scales)]
        if self.static_input:
            stored.append(Stored("input_scale", 1, 4))
            if not self.input_symmetric:
                stored.append(Stored("input_zero_point", 1, 4))
        return tuple(stored)
