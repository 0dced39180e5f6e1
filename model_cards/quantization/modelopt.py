"""NVIDIA ModelOpt checkpoints: FP8 and NVFP4, described in config.json or hf_quant_config.json."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from model_cards.config import Config
from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.quantization.scheme import QuantScheme, names_layers

_ALGORITHMS: dict[str, WeightFormat] = {
    "FP8": Fp8(Granularity.TENSOR, static_input=True),
    "FP8_PER_CHANNEL_PER_TOKEN": Fp8(Granularity.CHANNEL),
    "FP8_PB_WO": Fp8(Granularity.BLOCK, (128, 128)),
    "NVFP4": Nvfp4(),
    "W4A16_NVFP4": Nvfp4(quantized_input=False),
}
_METHODS = {"NVFP4": "modelopt_fp4", "W4A16_NVFP4": "modelopt_fp4"}


class ModelOptScheme(QuantScheme):
    """One algorithm for all linear layers but the excluded ones."""

    def __init__(self, config: Config) -> None:
        settings = config.section("quantization") or config  # hf_quant_config.json nests
        algorithm = settings.string("quant_algo", "").upper()
        if algorithm not in _ALGORITHMS:
            raise UnmodelledQuantization(
                f"{config.where}: ModelOpt's {algorithm or 'unnamed algorithm'} is not modelled"
            )
        self.format = _ALGORITHMS[algorithm]
        self.method = _METHODS.get(algorithm, "modelopt")
        self.excluded = settings.strings("exclude_modules") or settings.strings("ignore")
        self.by_layer = names_layers(
            # A router's name matches nothing else in an MoE layer.
            [p for p in self.excluded if not p.endswith("mlp.gate")]
        )
        if _wants_fp8_kv(settings):
            self.kv_cache_dtype = "fp8"

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`; a pattern is a whole path, a part of one, or a wildcard."""
        skipped = any(p in path or fnmatchcase(path, p) for p in self.excluded)
        return UNQUANTIZED if skipped else self.format

    def linear(self, path: str, parts: Sequence[str] = ()) -> WeightFormat:
        """See `QuantScheme`; vLLM also matches patterns against the fused layer's own path."""
        fused = self.path_format(path)
        return super().linear(path, parts) if fused is self.format else fused

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.path_format(prefix)

    def head(self, path: str) -> WeightFormat:
        """See `QuantScheme`; ModelOpt quantizes the head unless it is excluded."""
        return self.path_format(path)


def _wants_fp8_kv(settings: Config) -> bool:
    algorithm = settings.raw("kv_cache_quant_algo") or settings.raw("kv_cache_scheme")
    if isinstance(algorithm, str):
        return algorithm.upper() == "FP8"
    return isinstance(algorithm, dict) and algorithm.get("num_bits") == 8
