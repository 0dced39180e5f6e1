"""A model in a local folder: config.json, ModelOpt's side file, safetensors headers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config, read_json_object
from model_cards.errors import UnknownModel
from model_cards.facts import Facts
from model_cards.inventory import MOST_TENSORS, Inventory, StoredTensor
from model_cards.sources.generation import read_generation
from model_cards.sources.headers import Contents, Totals, contents, read_tensors, same_weights
from model_cards.sources.pooling_files import read_pooling_files


def looks_like_path(reference: str) -> bool:
    """Whether a model reference is meant as a path rather than as a Hub id."""
    if reference.startswith((".", "/", "~")) or os.path.isdir(reference):
        return True
    return reference.endswith(".gguf") and os.path.isfile(reference)


def open_folder(reference: str) -> ModelCard:
    """The card of a checkpoint folder. Raises `UnknownModel` or `BadConfig`."""
    # No path holds a null byte, and `expanduser` raises for one.
    folder = Path(reference if "\0" in reference else os.path.expanduser(reference))
    if reference.endswith(".gguf") and os.path.isfile(folder):
        from model_cards.sources.gguf import open_gguf

        return open_gguf(reference, folder)
    if not os.path.isdir(folder):
        raise UnknownModel(f"No folder {reference}")
    path = folder / "config.json"
    if not os.path.isfile(path):
        raise UnknownModel(f"{reference} holds no config.json; is it a Hugging Face model folder?")
    config = Config(read_json_object(path), str(path))
    facts = folder_facts(folder, config)
    return build_card(reference, config, Origin("folder", str(folder)), facts)


def folder_facts(folder: Path, config: Config) -> Facts:
    """What the files beside a config.json tell."""

    def find(name: str) -> Path | None:
        return folder / name if os.path.isfile(folder / name) else None

    pooling = read_pooling_files(config, find)
    side_path = folder / "hf_quant_config.json"
    side = (
        Config(read_json_object(side_path), str(side_path)) if os.path.isfile(side_path) else None
    )
    generation = read_generation(find("generation_config.json"))
    facts = Facts(side_file=side, pooling=pooling, generation=generation)
    found = _contents(folder)
    if found is None:
        return facts
    stored = found.totals
    return replace(
        facts,
        parameters=stored.parameters,
        checkpoint_bytes=stored.bytes,
        inventory=found.inventory,
    )


def _contents(folder: Path) -> Contents | None:
    """What the tensors are by the files' headers; None if nothing tells.

    An index names the files that count, here as for vLLM: some repositories hold the weights
    twice. Where it names files that are not there, the size that it states stands in.
    """
    files = {file.name: file for file in sorted(folder.glob("*.safetensors"))}
    files = {name: file for name, file in files.items() if os.path.isfile(file)}
    index_path = folder / "model.safetensors.index.json"
    if os.path.isfile(index_path):
        index = Config(read_json_object(index_path), str(index_path))
        shards = index.section("weight_map")
        named = {shards.string(tensor) for tensor in shards} if shards is not None else set()
        if not named <= files.keys():
            metadata = index.section("metadata")
            size = metadata.optional_total("total_size") if metadata is not None else None
            return Contents(Totals(size, None), None) if size is not None else None
        files = {name: files[name] for name in sorted(named)} or files
    # Mistral's own format, beside the same weights in that of transformers.
    plain = {name: file for name, file in files.items() if not name.startswith("consolidated")}
    files = plain or files
    if not files:
        return None
    tensors: dict[Path, dict[str, StoredTensor]] = {}
    for file in files.values():
        tensors[file] = read_tensors(file)
        if sum(map(len, tensors.values())) > MOST_TENSORS:  # the size of its files has to do
            return Contents(Totals(sum(each.stat().st_size for each in files.values()), None), None)
    found = contents(tensors.values())
    if found.inventory is None:
        return found
    copied = _copied(found.inventory, tensors)
    return replace(found, inventory=replace(found.inventory, head_is_copy=copied))


def _copied(inventory: Inventory, files: Mapping[Path, Mapping[str, StoredTensor]]) -> bool | None:
    """Whether the output head repeats the embedding, None if there are not both of them."""
    head, embedding = inventory.lm_head, inventory.embedding
    if head is None or embedding is None:
        return None
    if head[1] != embedding[1]:
        return False

    def place(name: str) -> tuple[Path, str]:
        return next(file for file, tensors in files.items() if name in tensors), name

    return same_weights(place(head[0]), place(embedding[0]))
