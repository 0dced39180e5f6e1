"""GPTQ: 2- to 8-bit weights in groups along the inputs."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

from model_cards.config import Config
from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.formats import UNQUANTIZED, Stored, WeightFormat
from model_cards.quantization.paths import layer_keys
from model_cards.quantization.scheme import QuantScheme, compile_pattern, group_size


class Gptq(WeightFormat, frozen=True):
    """AutoGPTQ's layout: int32-packed weights and zeros, scales in the model's dtype."""

    bits: int
    group_size: int  # -1: one group over all inputs
    desc_act: bool
    symmetric: bool

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return f"gptq int{self.bits} g{self.group_size}"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return f"int{self.bits}"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return self.bits

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`; the checkpoint's `g_idx` (4 bytes an input) is not kept by vLLM."""
        out = sum(outputs)
        groups = inputs // self.group_size if self.group_size > 0 else 1
        scales = groups * out
        weight, zeros = inputs * out * self.bits // 32, scales * self.bits // 32
        return (
            Stored("qweight", weight, 4 * weight),
            Stored("qzeros", zeros, 4 * zeros),
            Stored("scales", scales, dtype_bytes * scales),
        )


class GptqScheme(QuantScheme):
    """`quant_method: gptq`, with GPTQModel's per-module `dynamic` rules."""

    method = "gptq"

    def __init__(self, config: Config) -> None:
        self.format = Gptq(
            config.integer("bits"),
            group_size(config, "group_size"),
            config.boolean("desc_act", False),
            config.boolean("sym", True),
        )
        if self.format.bits not in (2, 3, 4, 8):
            raise config.fail("bits", "2, 3, 4 or 8")
        self.head_quantized = config.boolean("lm_head", False)
        dynamic = config.section("dynamic")
        self.excluded: list[re.Pattern[str]] = []
        for key in dynamic or ():
            # "-:pattern" leaves modules unquantized; other rules change bits module by module.
            if not key.startswith("-:"):
                raise UnmodelledQuantization(
                    f"{config.where}: per-module GPTQ settings ({key!r}) are not modelled"
                )
            self.excluded.append(compile_pattern(key[2:]))
        self.keys = layer_keys([f"re:{pattern.pattern}" for pattern in self.excluded])

    def layer_key(self, path: str) -> Hashable:
        """See `QuantScheme`."""
        return self.keys(path)

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        skipped = any(pattern.match(path) for pattern in self.excluded)
        return UNQUANTIZED if skipped else self.format

    def head(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.path_format(path) if self.head_quantized else UNQUANTIZED
