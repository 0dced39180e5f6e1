"""GGUF files of a Hub repository, by the header of the one that is meant: `ORG/NAME:Q4_K_M`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from model_cards.card import ModelCard, Origin
from model_cards.errors import UnknownModel
from model_cards.sources import hub_client
from model_cards.sources.gguf import GgufHeader, gguf_card, read_prefix
from model_cards.sources.hub import told_id, told_revision
from model_cards.sources.hub_ranges import fetch_range

# "model-Q4_K_M.gguf", "model.Q4_K_M.gguf", "Q4_K_M/model-00001-of-00002.gguf"
_QUANT: Final = re.compile(
    r"(?:^|[-./])((?:UD-)?(?:I?Q\d\w*|F16|BF16|F32|MXFP4\w*))(?:[-.][^/]*|/[^/]*)?\.gguf$", re.I
)
_MOST_NAMED: Final = 8


def open_gguf_online(model_id: str, quant: str, revision: str | None = None) -> ModelCard:
    """The card of a quantization in a repository of GGUF files.

    Raises `HubUnavailable`, `UnknownModel` or `GatedModel` as `hub.open_online` does.
    """
    return hub_client.ask(lambda: _open(model_id, quant, revision))


def quants(files: Collection[str]) -> list[str]:
    """The quantizations that files of a repository are named after."""
    found = (match[1] for name in files if (match := _QUANT.search(name)) is not None)
    return sorted(dict.fromkeys(found))


def _open(model_id: str, quant: str, revision: str | None) -> ModelCard:
    from huggingface_hub import HfApi

    timeout = hub_client.DEADLINE_SECONDS
    info = HfApi().model_info(model_id, revision=revision, timeout=timeout)
    files = [sibling.rfilename for sibling in info.siblings or ()]
    meant = sorted(
        name
        for name in files
        if (match := _QUANT.search(name)) is not None and match[1].lower() == quant.lower()
    )
    if not meant:
        has = quants(files)[:_MOST_NAMED]
        what = f"it has {', '.join(has)}" if has else "it holds no GGUF files"
        raise UnknownModel(f"the Hub's repository has no GGUF file of {quant}; {what}")
    told = told_id(info, model_id)
    headers = [_header(told, name, revision) for name in meant]
    return gguf_card(f"{told}:{quant}", headers, Origin("hub", told_revision(info)))


def _header(model_id: str, name: str, revision: str | None) -> GgufHeader:
    def fetch(start: int, end: int) -> bytes:
        timeout = hub_client.DEADLINE_SECONDS
        return fetch_range(model_id, name, revision, start, end, timeout=timeout)

    return read_prefix(fetch, name)
