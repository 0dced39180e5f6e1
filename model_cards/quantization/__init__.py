"""`quantization_config` to what each module of a checkpoint stores; one module per format."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from model_cards.config import Config
from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme

# vLLM's `quant_method` -> (module, what reads it). A new format is a new file and a line.
_SCHEMES: Final = {
    "awq": ("awq", "AwqScheme"),
    "awq_marlin": ("awq", "AwqScheme"),
    "gptq": ("gptq", "GptqScheme"),
    "gptq_marlin": ("gptq", "GptqScheme"),
    "fp8": ("fp8", "Fp8Scheme"),
    "deepseek_v4_fp8": ("deepseek_v4", "DeepseekV4Fp8Scheme"),
    "compressed-tensors": ("compressed_tensors", "CompressedTensorsScheme"),
    "mxfp4": ("mxfp4", "Mxfp4Scheme"),
    "modelopt": ("modelopt", "modelopt_scheme"),
    "modelopt_fp4": ("modelopt", "modelopt_scheme"),
}
# model_type -> quant_method or format -> what vLLM takes instead (`override_quantization_method`,
# `verify_and_update_model_config`).
_OVERRIDES: Final[Mapping[str, Mapping[str, str]]] = {
    "deepseek_v4": {"fp8": "deepseek_v4_fp8"},
    "deepseek_v41": {"fp8": "deepseek_v4_fp8"},
    "kimi_k3": {"mxfp4-pack-quantized": "mxfp4"},
}
# Keys beside `quantization_config` that a method reads too.
_FROM_CONFIG: Final = ("expert_dtype", "model_type")


def quantization_settings(config: Config, side_file: Config | None = None) -> Config | None:
    """The object that describes the quantization, None for a checkpoint in its own dtype.

    As vLLM looks for it: in config.json (also inside `text_config`, also as
    `compression_config`), and only without one in ModelOpt's hf_quant_config.json.
    """
    for part in (config, config.text):
        for key in ("quantization_config", "compression_config"):
            settings = part.section(key)
            if settings is not None:
                return settings
    return side_file


def quantization_method(settings: Config) -> str | None:
    """vLLM's name for it; None if the settings name none, which vLLM loads unquantized."""
    method = settings.string("quant_method", "").lower().replace("_tensors", "-tensors")
    if method:
        return method
    nested = settings.section("quantization")
    if nested is None or "quant_algo" not in nested:
        return None
    producer = settings.section("producer")
    named = producer is not None and producer.string("name", "") == "modelopt"
    # An excerpt need not say who made it.
    return "modelopt" if named or not settings.complete else None


def read_scheme(
    config: Config, side_file: Config | None = None, names: Mapping[str, str] | None = None
) -> QuantScheme:
    """The quantization of a checkpoint, whose paths begin as `names` renames them.

    Raises `UnmodelledQuantization` for a method or layout that is not modelled.
    """
    settings = quantization_settings(config, side_file)
    method = quantization_method(settings) if settings is not None else None
    if settings is None or method is None:
        return NO_QUANTIZATION
    instead = _OVERRIDES.get(config.model_type, {})
    method = instead.get(settings.string("format", ""), instead.get(method, method))
    if method not in _SCHEMES:
        raise UnmodelledQuantization(f"{settings.where}: quantization {method!r} is not modelled")
    settings = settings.merged({key: config.raw(key) for key in _FROM_CONFIG if key in config})
    if names:
        values = {key: _renamed(settings.raw(key), names) for key in settings}
        settings = Config(values, settings.where, complete=settings.complete)
    module, name = _SCHEMES[method]
    scheme = getattr(import_module(f"model_cards.quantization.{module}"), name)(settings)
    assert isinstance(scheme, QuantScheme)
    return scheme


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same settings with the first of `names` (old beginning to new) put into every path."""
    if isinstance(value, dict):
        return {_renamed(key, names): _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, str):
        for old, new in names.items():
            if value.startswith(old):
                return new + value[len(old) :]
            if value == old[:-1] + "*":  # a wildcard for everything below
                return new + "*"
    return value
