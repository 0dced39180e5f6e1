"""NVIDIA ModelOpt checkpoints: FP8, MXFP8 and NVFP4, by config.json or hf_quant_config.json.

One algorithm for all linear layers, or `MIXED_PRECISION` with a table that names one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from model_cards.config import Config
from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.quantization.scheme import QuantScheme, names_layers

_ALGORITHMS: dict[str, WeightFormat] = {
    "FP8": Fp8(Granularity.TENSOR, static_input=True),
    "FP8_PER_CHANNEL_PER_TOKEN": Fp8(Granularity.CHANNEL),
    "FP8_PB_WO": Fp8(Granularity.BLOCK, (128, 128)),
    "MXFP8": Mxfp8(),
    "NVFP4": Nvfp4(),
    "W4A16_NVFP4": Nvfp4(quantized_input=False),
}
_METHODS = {"NVFP4": "modelopt_fp4", "W4A16_NVFP4": "modelopt_fp4"}
# Vision towers that vLLM leaves unquantized though older ModelOpt versions do not exclude them.
_TOWERS = ("vision_tower", "vision_model", "vit_large_projector")


def modelopt_scheme(config: Config) -> QuantScheme:
    """The scheme of a ModelOpt checkpoint; hf_quant_config.json nests the settings."""
    settings = config.section("quantization") or config
    if settings.string("quant_algo", "").upper() == "MIXED_PRECISION":
        return MixedPrecisionScheme(settings)
    return ModelOptScheme(settings)


def _algorithm(name: str, where: str) -> WeightFormat:
    if name not in _ALGORITHMS:
        raise UnmodelledQuantization(
            f"{where}: ModelOpt's {name or 'unnamed algorithm'} is not modelled"
        )
    return _ALGORITHMS[name]


class ModelOptScheme(QuantScheme):
    """One algorithm for all linear layers but the excluded ones."""

    def __init__(self, settings: Config) -> None:
        algorithm = settings.string("quant_algo", "").upper()
        self.format = _algorithm(algorithm, settings.where)
        self.method = _METHODS.get(algorithm, "modelopt")
        self.excluded = settings.strings("exclude_modules") or settings.strings("ignore")
        self.by_layer = names_layers(
            # A router's name matches nothing else in an MoE layer.
            [p for p in self.excluded if not p.endswith("mlp.gate")]
        )
        if _wants_fp8_kv(settings):
            self.kv_cache_dtype = "fp8_e4m3"

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`; a pattern is a whole path, a part of one, or a wildcard."""
        skipped = any(p in path or fnmatchcase(path, p) for p in (*_TOWERS, *self.excluded))
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


class MixedPrecisionScheme(QuantScheme):
    """`MIXED_PRECISION`: `quantized_layers` names the algorithm of every quantized matrix."""

    method = "modelopt_mixed"
    by_layer = True

    def __init__(self, settings: Config) -> None:
        table = settings.section("quantized_layers")
        if table is None:
            raise settings.fail("quantized_layers", "an object of paths and their algorithms")
        self.formats: dict[str, WeightFormat] = {}
        for path in table:
            entry = table.section(path)
            if entry is None:
                raise table.fail(path, "an object that names its algorithm")
            self.formats[path] = _algorithm(entry.string("quant_algo").upper(), entry.where)
        self.excluded = settings.strings("exclude_modules") or settings.strings("ignore")
        # An expert layer has the format of any path below it, a routed one below its parent.
        self.below: dict[str, WeightFormat] = {}
        for path, weight_format in self.formats.items():
            parent = path.rpartition(".")[0]
            while parent:
                self.below.setdefault(parent, weight_format)
                parent = parent.rpartition(".")[0]
        if _wants_fp8_kv(settings):
            self.kv_cache_dtype = "fp8_e4m3"

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        if any(p in path or fnmatchcase(path, p) for p in self.excluded):
            return UNQUANTIZED
        return self.formats.get(path, UNQUANTIZED)

    def linear(self, path: str, parts: Sequence[str] = ()) -> WeightFormat:
        """See `QuantScheme`; the table may name the fused layer or what it fuses."""
        if path in self.formats:
            return self.path_format(path)
        parent = path.rpartition(".")[0]
        named = [part for part in parts if f"{parent}.{part}" in self.formats]
        return super().linear(path, named) if named else UNQUANTIZED

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`."""
        if self.path_format(prefix) is not UNQUANTIZED:
            return self.path_format(prefix)
        if any(p in prefix or fnmatchcase(prefix, p) for p in self.excluded):
            return UNQUANTIZED
        parent = prefix.rpartition(".")[0]
        return self.below.get(prefix) or self.below.get(parent) or UNQUANTIZED

    def head(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.path_format(path)


def _wants_fp8_kv(settings: Config) -> bool:
    algorithm = settings.raw("kv_cache_quant_algo") or settings.raw("kv_cache_scheme")
    if isinstance(algorithm, str):
        return algorithm.upper() == "FP8"
    return isinstance(algorithm, dict) and algorithm.get("num_bits") == 8
