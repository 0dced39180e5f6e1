"""Headers of the safetensors files of a Hub repository, through huggingface_hub.

They say more than the totals of a repository's description, which stand in where headers do not
come in time or make no sense: nothing here raises.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

from model_cards.config import Config, read_json_object
from model_cards.inventory import MOST_TENSORS, StoredTensor
from model_cards.sources.headers import Contents, contents, header_tensors, parse_header
from model_cards.sources.hub_client import time_left
from model_cards.sources.hub_ranges import fetch_range

_SINGLE: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_SHARD: Final = re.compile(r"model-\d+-of-\d+\.safetensors")
# Shards whose headers are asked for one by one, all at once; totals do for more of them.
_MOST_SHARDS: Final = 32
_FIRST_BYTES: Final = 100_000


def fetch_contents(
    model_id: str,
    revision: str | None,
    files: Collection[str],
    fetch: Callable[[str], Path | None],
    until: float,
) -> Contents | None:
    """What the weight files among `files` hold, None if that is not known at the time `until`.

    `fetch` gives the place of a small file of the repository.
    """
    found: list[Contents] = []

    def read() -> None:
        try:
            shards = _shards(files, fetch)
            if shards:
                found.append(_fetch(model_id, revision, shards, until))
        except Exception:  # of the Hub, of what it answers: the totals stand in
            return

    thread = threading.Thread(target=read, name=threading.current_thread().name, daemon=True)
    thread.start()
    thread.join(max(0.0, until - time.monotonic()))
    return found[0] if found else None


def _shards(files: Collection[str], fetch: Callable[[str], Path | None]) -> list[str]:
    """The files that count: their usual names tell, else the index does."""
    if _INDEX not in files:
        return [_SINGLE] if _SINGLE in files else []
    usual = [name for name in files if _SHARD.fullmatch(name)]
    path = fetch(_INDEX) if not usual else None
    if path is None:
        return usual
    index = Config(read_json_object(path), _INDEX).section("weight_map")
    named = sorted({index.string(tensor) for tensor in index}) if index is not None else []
    return named if set(named) <= set(files) else []


def _fetch(model_id: str, revision: str | None, shards: list[str], until: float) -> Contents:
    from huggingface_hub import HfApi

    api = HfApi()
    together = getattr(api, "get_sharded_safetensors_metadata", None)
    if len(shards) > 1 and revision is None and together is not None:
        try:  # one request for all of them, which other endpoints than the Hub's do not know
            answer = together(model_id, timeout=time_left(until))
            listed = answer.files_metadata
            count = sum(len(file.tensors) for file in listed.values())
            if listed.keys() >= set(shards) and count <= MOST_TENSORS:
                return contents(_tensors(listed[name], name) for name in shards)
        except Exception:
            pass
    if len(shards) > _MOST_SHARDS:
        raise TimeoutError
    found: dict[str, dict[str, StoredTensor]] = {}

    def too_many() -> bool:
        return sum(map(len, list(found.values()))) > MOST_TENSORS

    def fetch(name: str, start: int, end: int) -> bytes:
        part = fetch_range(model_id, name, revision, start, end, timeout=time_left(until))
        if too_many():  # before this one takes its memory, too
            raise TimeoutError
        return part

    def read(name: str) -> None:
        try:
            found[name] = _read(name, partial(fetch, name))
        except Exception:  # one that is missing makes all of them useless
            return

    threads = [
        threading.Thread(
            target=read, args=(name,), name=threading.current_thread().name, daemon=True
        )
        for name in shards
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(time_left(until))
    if len(found) < len(shards) or too_many():
        raise TimeoutError
    return contents(found.values())


def _read(name: str, fetch: Callable[[int, int], bytes]) -> dict[str, StoredTensor]:
    """The tensors of one file; a first part of it holds most headers whole."""
    begun = fetch(0, _FIRST_BYTES)

    def held(start: int, end: int) -> bytes:
        return begun[start:end] if end <= len(begun) else fetch(start, end)

    return header_tensors(parse_header(held, name), name)


def _tensors(file: Any, name: str) -> dict[str, StoredTensor]:
    """The tensors of one file as huggingface_hub describes it."""
    header = {
        tensor: {"dtype": info.dtype, "shape": info.shape, "data_offsets": info.data_offsets}
        for tensor, info in file.tensors.items()
    }
    return header_tensors(header, name)
