"""A model in a local folder: config.json, ModelOpt's side file, safetensors headers."""

from __future__ import annotations

from pathlib import Path

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config, read_json_object
from model_cards.errors import UnknownModel
from model_cards.facts import Facts
from model_cards.sources.headers import folder_totals


def looks_like_path(reference: str) -> bool:
    """Whether a model reference is meant as a path rather than as a Hub id."""
    return reference.startswith((".", "/", "~")) or Path(reference).is_dir()


def open_folder(reference: str) -> ModelCard:
    """The card of a checkpoint folder. Raises `UnknownModel` or `BadConfig`."""
    folder = Path(reference).expanduser()
    if not folder.is_dir():
        raise UnknownModel(f"No folder {reference}")
    path = folder / "config.json"
    if not path.is_file():
        raise UnknownModel(f"{reference} holds no config.json; is it a Hugging Face model folder?")
    config = Config(read_json_object(path), str(path))
    return build_card(reference, config, Origin("folder", str(folder)), folder_facts(folder))


def folder_facts(folder: Path) -> Facts:
    """What the files beside a config.json tell."""
    side_path = folder / "hf_quant_config.json"
    side = Config(read_json_object(side_path), str(side_path)) if side_path.is_file() else None
    totals = folder_totals(folder)
    return Facts(checkpoint_bytes=totals.bytes if totals else None, side_file=side)


def index_bytes(index: Path) -> int | None:
    """Bytes that a model.safetensors.index.json states for all weight files."""
    metadata = Config(read_json_object(index), index.name).section("metadata")
    return metadata.optional_integer("total_size") if metadata is not None else None
