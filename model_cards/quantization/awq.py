"""AWQ: 4-bit weights in groups along the inputs, with packed zero points."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from model_cards.config import Config
from model_cards.quantization.formats import UNQUANTIZED, Stored, WeightFormat
from model_cards.quantization.paths import layer_keys
from model_cards.quantization.scheme import QuantScheme, group_size, substring


class Awq(WeightFormat, frozen=True):
    """AutoAWQ's GEMM layout: int32-packed weights and zeros, scales in the model's dtype."""

    bits: int
    group_size: int  # -1: one group over all inputs
    zero_point: bool

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return f"awq int{self.bits} g{self.group_size}"

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
        per_word = 32 // self.bits
        weight, zeros, scales = inputs * out // per_word, groups * out // per_word, groups * out
        return (
            Stored("qweight", weight, 4 * weight),
            Stored("qzeros", zeros, 4 * zeros),
            Stored("scales", scales, dtype_bytes * scales),
        )


class AwqScheme(QuantScheme):
    """`quant_method: awq`."""

    method = "awq"

    def __init__(self, config: Config) -> None:
        # AWQ's own tools write the first of each pair, AutoAWQ and transformers the second.
        width = "w_bit" if "w_bit" in config else "bits"
        group_key = "q_group_size" if "q_group_size" in config else "group_size"
        bits, group = config.integer(width, 4), group_size(config, group_key, 128)
        if bits != 4:
            raise config.fail(width, "4, the only width of AWQ that vLLM knows")
        self.format = Awq(bits, group, config.boolean("zero_point", True))
        ignored = config.strings("modules_to_not_convert")
        self.ignored = substring(ignored)
        self.keys = layer_keys(ignored)
        self.head_quantized = config.boolean("lm_head", False)

    def layer_key(self, path: str) -> Hashable:
        """See `QuantScheme`."""
        return self.keys(path)

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return UNQUANTIZED if self.ignored(path) else self.format

    def head(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.path_format(path) if self.head_quantized else UNQUANTIZED
