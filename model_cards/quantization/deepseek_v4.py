"""DeepSeek V4's own FP8 (vLLM's `deepseek_v4_fp8`): blocks for linear layers, 4 bits for experts.

`expert_dtype: fp4` checkpoints store routed experts as MXFP4, or as NVFP4 where ModelOpt made
them over (`moe_quant_algo`), and the scales of the FP8 blocks as powers of two. Blocks of 32x32
become MXFP8, with a scale for every row.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec.structs import replace

from model_cards.config import Config
from model_cards.quantization.formats import WeightFormat
from model_cards.quantization.fp8 import Fp8, Fp8Scheme
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import GROUP as MXFP8_GROUP
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4


class DeepseekV4Fp8Scheme(Fp8Scheme):
    """`quant_method: fp8` of a DeepSeek V4."""

    method = "deepseek_v4_fp8"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        assert isinstance(self.format, Fp8)
        self.fp4_experts = config.string("expert_dtype", "fp4") == "fp4"
        self.nvfp4 = config.string("moe_quant_algo", "").upper() == "NVFP4"
        self.as_released = config.strings("ignore")  # what ModelOpt did not make over
        if self.fp4_experts:
            small = self.format.block == (MXFP8_GROUP, MXFP8_GROUP)
            self.format = Mxfp8() if small else replace(self.format, scale_bytes=1)

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`."""
        if not self.fp4_experts:
            return super().experts(prefix)
        if self.nvfp4 and not any(fnmatchcase(prefix, p) for p in self.as_released):
            return Nvfp4()
        return Mxfp4(quantized_input=True)
