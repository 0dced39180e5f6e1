"""FP8: one byte a weight, with scales per tensor, per output channel or per block.

`quant_method: fp8` checkpoints (DeepSeek, Qwen, Mistral). The same layouts come in
compressed-tensors and ModelOpt checkpoints, which import `Fp8` from here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum

from model_cards.config import Config
from model_cards.quantization.formats import UNQUANTIZED, Stored, WeightFormat, ceil_div
from model_cards.quantization.paths import layer_keys
from model_cards.quantization.scheme import QuantScheme


class Granularity(Enum):
    """What one weight scale covers."""

    TENSOR = "per tensor"
    CHANNEL = "per channel"
    BLOCK = "block"


class Fp8(WeightFormat, frozen=True):
    """FP8 weights; `static_input` checkpoints also hold a scale of the activations."""

    granularity: Granularity
    block: tuple[int, int] = (0, 0)  # (outputs, inputs) of one scale
    static_input: bool = False
    scale_bytes: int = 4  # fp32, or 1 for powers of two (e8m0)

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        if self.granularity is Granularity.BLOCK:
            return f"fp8 block {self.block[0]}x{self.block[1]}"
        return f"fp8 {self.granularity.value}"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return "fp8"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return 8

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`; scales are one per projection where they are per tensor."""
        weight = inputs * sum(outputs)
        match self.granularity:
            case Granularity.TENSOR:
                scales = len(outputs)
            case Granularity.CHANNEL:
                scales = sum(outputs)
            case Granularity.BLOCK:
                block_out, block_in = self.block
                scales = sum(ceil_div(out, block_out) for out in outputs) * ceil_div(
                    inputs, block_in
                )
        stored = [
            Stored("weight", weight, weight),
            Stored("weight_scale", scales, self.scale_bytes * scales),
        ]
        if self.static_input:
            stored.append(Stored("input_scale", len(outputs), 4 * len(outputs)))
        return tuple(stored)


class Fp8Scheme(QuantScheme):
    """`quant_method: fp8`."""

    method = "fp8"

    def __init__(self, config: Config) -> None:
        block = config.integers("weight_block_size", minimum=1)
        if block and len(block) != 2:
            raise config.fail("weight_block_size", "two numbers")
        static = config.string("activation_scheme", "dynamic") == "static"
        if block:
            self.format: WeightFormat = Fp8(Granularity.BLOCK, (block[0], block[1]))
        else:
            self.format = Fp8(Granularity.TENSOR, static_input=static)
        ignored = config.strings("ignored_layers") or config.strings("modules_to_not_convert")
        self.ignored = frozenset(ignored)
        self.keys = layer_keys(ignored)

    def layer_key(self, path: str) -> Hashable:
        """See `QuantScheme`."""
        return self.keys(path)

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`; vLLM matches whole paths here."""
        return UNQUANTIZED if path in self.ignored else self.format

    def linear(self, path: str, parts: Sequence[str] = ()) -> WeightFormat:
        """See `QuantScheme`; some lists name vLLM's fused layer itself."""
        return UNQUANTIZED if path in self.ignored else super().linear(path, parts)

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`; one listed expert module keeps the whole layer unquantized."""
        skipped = any("experts" in name and prefix in name for name in self.ignored)
        return UNQUANTIZED if skipped else self.format
