"""NVIDIA ModelOpt checkpoints: FP8, MXFP8 and NVFP4, by config.json or hf_quant_config.json.

One algorithm for all linear layers, or `MIXED_PRECISION` with a table that names one for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from model_cards.config import Config
from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.quantization.paths import PathTable, layer_keys
from model_cards.quantization.scheme import QuantScheme, part_or_wildcard

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
        excluded = settings.strings("exclude_modules") or settings.strings("ignore")
        self.excludes = part_or_wildcard((*_TOWERS, *excluded))
        self.keys = layer_keys(excluded)
        if _wants_fp8_kv(settings):
            self.kv_cache_dtype = "fp8_e4m3"

    def layer_key(self, path: str) -> Hashable:
        """See `QuantScheme`."""
        return self.keys(path)

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`; a pattern is a whole path, a part of one, or a wildcard."""
        return UNQUANTIZED if self.excludes(path) else self.format

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

    def __init__(self, settings: Config) -> None:
        # An expert layer has the format of any path below it, a routed one below its parent.
        self.formats = PathTable(_quantized_layers(settings))
        excluded = settings.strings("exclude_modules") or settings.strings("ignore")
        self.excludes = part_or_wildcard(excluded)
        self.keys = layer_keys(excluded)
        if _wants_fp8_kv(settings):
            self.kv_cache_dtype = "fp8_e4m3"

    def layer_key(self, path: str) -> Hashable:
        """See `QuantScheme`."""
        return self.formats.layer_key(path), self.keys(path)

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        if self.excludes(path):
            return UNQUANTIZED
        return self.formats.get(path) or UNQUANTIZED

    def linear(self, path: str, parts: Sequence[str] = ()) -> WeightFormat:
        """See `QuantScheme`; the table may name the fused layer or what it fuses."""
        if self.formats.get(path) is not None:
            return self.path_format(path)
        parent = path.rpartition(".")[0]
        named = [part for part in parts if self.formats.get(f"{parent}.{part}") is not None]
        return super().linear(path, named) if named else UNQUANTIZED

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`."""
        if self.path_format(prefix) is not UNQUANTIZED:
            return self.path_format(prefix)
        if self.excludes(prefix):
            return UNQUANTIZED
        parent = prefix.rpartition(".")[0]
        return self.formats.below(prefix) or self.formats.below(parent) or UNQUANTIZED

    def head(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.path_format(path)


def _wants_fp8_kv(settings: Config) -> bool:
    algorithm = settings.raw("kv_cache_quant_algo") or settings.raw("kv_cache_scheme")
    if isinstance(algorithm, str):
        return algorithm.upper() == "FP8"
    return isinstance(algorithm, dict) and algorithm.get("num_bits") == 8


def _quantized_layers(settings: Config) -> Iterator[tuple[str, WeightFormat]]:
    """Paths with their format, from the table or from the snapshot's folded copy of it."""
    for folded in settings.sections("quantized_layers_folded"):
        algorithm = _algorithm(folded.string("quant_algo").upper(), folded.where)
        yield from ((path, algorithm) for path in folded.strings("paths"))
    table = settings.section("quantized_layers")
    if table is None:
        if "quantized_layers_folded" in settings:
            return
        raise settings.fail("quantized_layers", "an object of paths and their algorithms")
    for path in table:
        entry = table.section(path)
        if entry is None:
            raise table.fail(path, "an object that names its algorithm")
        yield path, _algorithm(entry.string("quant_algo").upper(), entry.where)
