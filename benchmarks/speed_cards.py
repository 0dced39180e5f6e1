"""The card of a measured model: the shape of one repository in the format that a row names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from model_cards import open_card
from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.errors import CardError
from model_cards.facts import Facts
from model_cards.quantization.presets import usual_settings
from model_cards.sources.bundled import bundled_config, find_entry, open_bundled

# Names of the rows -> the kind of format, and the layout that checkpoints in it usually have.
_FORMATS: Final = {
    "bf16": ("16bit", None),
    "fp16": ("16bit", None),
    "f16": ("16bit", None),
    "fp8": ("fp8", "modelopt-fp8"),
    "nvfp4": ("nvfp4", "modelopt-nvfp4"),
    "fp4": ("nvfp4", "modelopt-nvfp4"),
    "mxfp4": ("mxfp4", None),
    "awq-int4": ("int4", "awq"),
    "gptq-int4": ("int4", "gptq-int4"),
    "int4": ("int4", "gptq-int4"),
    "int4-autoround": ("int4", "gptq-int4"),
    "int4-g32": ("int4", "gptq-int4"),
    "w4a16": ("int4", "w4a16"),
    "gptq-int8": ("int8", "gptq-int8"),
    "int8": ("w8a8", "w8a8"),
    "w8a8": ("w8a8", "w8a8"),
}
# What the makers of quantized copies append to the name.
_ENDINGS: Final = {
    "fp8": ("-FP8", "-FP8-dynamic"),
    "fp4": ("-NVFP4",),
    "nvfp4": ("-NVFP4",),
    "awq-int4": ("-AWQ",),
    "gptq-int4": ("-GPTQ-Int4",),
    "gptq-int8": ("-GPTQ-Int8",),
}
_MAKERS: Final = ("nvidia", "RedHatAI")


class NoCard(Exception):
    """Why there is no card of a row's model."""


@cache
def card_in(model: str, quant: str) -> ModelCard:
    """The card of `model` in that format.

    Its own checkpoint if that is in it; else a published copy; else the format's usual layout on
    its shape. Raises `NoCard`.
    """
    kind, preset = _FORMATS.get(quant, (None, None))
    try:
        card = open_card(model, offline=True)
        if kind is None or card.format_kind == kind:
            return card
        for name in _copies(model, quant):
            copy = open_bundled(name)
            if copy is not None and copy.format_kind == kind:
                return copy
        return _laid_out(model, quant, preset) or card
    except CardError as error:
        raise NoCard(str(error)) from error


def _copies(model: str, quant: str) -> Iterator[str]:
    owner, _, name = model.rpartition("/")
    for maker in (owner, *_MAKERS):
        for ending in _ENDINGS.get(quant, ()):
            if find_entry(f"{maker}/{name}{ending}") is not None:
                yield f"{maker}/{name}{ending}"


def _laid_out(model: str, quant: str, preset: str | None) -> ModelCard | None:
    """The shape of `model` with the usual layout of a format, None for a shape not bundled."""
    found = bundled_config(model)
    if found is None:
        return None
    values = _without_quantization(found[0])
    if preset is not None:
        values["quantization_config"] = usual_settings(preset, values)
    config = Config(values, f"{model} in {quant}: config.json", complete=True)
    facts = Facts(assumed="the layout is the format's usual one")
    return build_card(model, config, Origin("bundled", "benchmark"), facts)


def _without_quantization(config: Config) -> dict[str, object]:
    values = {key: config.raw(key) for key in config if key != "quantization_config"}
    text = values.get("text_config")
    if isinstance(text, dict):
        values["text_config"] = {k: v for k, v in text.items() if k != "quantization_config"}
    return {key: value for key, value in values.items() if value is not None}
