"""Cards of the models that published launches name: the bundled snapshot, and a list beside it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.quantization.presets import usual_settings
from model_cards.sources.bundled import bundled_config, open_bundled

LIST: Final = Path(__file__).parent / "launch_models.json"
_BNB_4BIT: Final = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "load_in_8bit": False,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_compute_dtype": "bfloat16",
}


# Formats whose lists of what stays unquantized differ from maker to maker.
_UNSEEN: Final = ("gptq-int4", "w4a16", "bnb-4bit")


@cache
def launched_card(name: str) -> ModelCard | None:
    """The card of a model as a launch names it, None where its config is not known."""
    bundled = open_bundled(name)
    if bundled is not None:
        return bundled
    entry = _listed().get(name)
    return None if entry is None else _described(name, entry)


@cache
def _listed() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = json.loads(LIST.read_text("utf-8"))["models"]
    return models


def _described(name: str, entry: dict[str, Any]) -> ModelCard:
    preset, patch = entry.get("preset"), entry.get("patch", {})
    if preset is None and not patch:
        card = open_bundled(entry["of"])
        assert card is not None, entry["of"]
        return card
    found = bundled_config(entry["of"])
    assert found is not None, entry["of"]
    config = found[0]
    values = {key: config.raw(key) for key in config} | patch
    values = {key: value for key, value in values.items() if value is not None}
    if preset == "bnb-4bit":
        values["quantization_config"] = _BNB_4BIT
    elif preset is not None:
        values["quantization_config"] = usual_settings(preset, values)
    where = Config(values, f"{name}: config.json", complete=True)
    return build_card(name, where, Origin("bundled", "launch"), Facts(assumed=_assumed(entry)))


def _assumed(entry: dict[str, Any]) -> str | None:
    """What makes the card an estimate."""
    if entry.get("preset") in _UNSEEN:
        return "the layout is the format's usual one"
    assumed: str | None = entry.get("assumed")
    return assumed
