"""compressed-tensors checkpoints (llm-compressor): groups of targets, each with its scheme."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from model_cards.config import Config
from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.integers import Int8, PackedInt
from model_cards.quantization.mxfp4 import GROUP as MXFP4_GROUP
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import GROUP as MXFP8_GROUP
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.quantization.paths import layer_keys
from model_cards.quantization.scheme import QuantScheme, exact_or_regex, group_size

# Targets that name a torch module class instead of a path.
_LINEAR_CLASSES = frozenset({"Linear"})


class CompressedTensorsScheme(QuantScheme):
    """`quant_method: compressed-tensors`."""

    method = "compressed-tensors"

    def __init__(self, config: Config) -> None:
        groups = config.section("config_groups")
        if groups is None:
            raise config.fail("config_groups", "an object of quantization groups")
        default_format = config.string("format", "")
        self.by_class: WeightFormat | None = None
        self.by_path: list[tuple[Callable[[str], bool], WeightFormat]] = []
        ignored = config.strings("ignore")
        targeted: list[str] = []
        for name in groups:
            group = groups.section(name)
            if group is None:
                continue
            weight_format = _group_format(group, group.string("format", default_format))
            targets = group.strings("targets") or ("Linear",)
            paths = [target for target in targets if target not in _LINEAR_CLASSES]
            if len(paths) < len(targets):
                self.by_class = weight_format
            if paths:
                targeted += paths
                self.by_path.append((exact_or_regex(paths), weight_format))
        if config.section("kv_cache_scheme") is not None:
            self.kv_cache_dtype = "fp8"
        self.ignored = exact_or_regex(ignored)
        self.keys = layer_keys([*ignored, *targeted])

    def layer_key(self, path: str) -> Hashable:
        """See `QuantScheme`."""
        return self.keys(path)

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        if self.ignored(path):
            return UNQUANTIZED
        for matches, weight_format in self.by_path:
            if matches(path):
                return weight_format
        return self.by_class or UNQUANTIZED

    def head(self, path: str) -> WeightFormat:
        """See `QuantScheme`; only a target that names the head quantizes it."""
        if self.ignored(path):
            return UNQUANTIZED
        return next((fmt for matches, fmt in self.by_path if matches(path)), UNQUANTIZED)


def _group_format(group: Config, packing: str) -> WeightFormat:
    weights = group.section("weights")
    if weights is None:
        return UNQUANTIZED
    inputs = group.section("input_activations")
    bits, kind = weights.integer("num_bits"), weights.string("type", "int")
    strategy = weights.string("strategy", "tensor")
    grouped = group_size(weights, "group_size", -1)
    static = inputs is not None and not inputs.raw("dynamic")  # true, false or "local"
    if kind == "float" and bits == 4 and grouped == MXFP4_GROUP:
        return Mxfp4(quantized_input=inputs is not None)
    if kind == "float" and bits == 4:
        return Nvfp4(grouped if grouped > 0 else 16, quantized_input=inputs is not None)
    if kind == "float" and bits == 8:
        if strategy == "block":
            block = weights.integers("block_structure", minimum=1) or (128, 128)
            return Fp8(Granularity.BLOCK, (block[0], block[-1]))
        if strategy == "channel":
            return Fp8(Granularity.CHANNEL, static_input=static)
        if strategy == "tensor":
            return Fp8(Granularity.TENSOR, static_input=static)
        if strategy == "group" and grouped == MXFP8_GROUP:
            return Mxfp8()
    if kind == "int" and packing == "pack-quantized" and 2 <= bits <= 8:
        act_order = weights.raw("actorder") in ("group", True)
        symmetric = weights.boolean("symmetric", True)
        return PackedInt(bits, grouped if strategy == "group" else -1, symmetric, act_order)
    if kind == "int" and bits == 8 and inputs is not None:
        return Int8(strategy == "channel", static, inputs.boolean("symmetric", True))
    raise UnmodelledQuantization(
        f"{group.where}: {bits}-bit {kind} weights, {strategy}, packed as "
        f"{packing or 'nothing named'}: no scheme of vLLM matches"
    )
