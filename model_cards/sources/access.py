"""Whether the weights of a model can be had: from the cache, or from the Hub with a token."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from model_cards.sources import hub_client
from model_cards.sources.hub_cache import client_constants, find_snapshot, is_offline

_WEIGHTS: Final = ("*.safetensors", "*.bin", "*.gguf", "*.pt")


def cached_weights(model_id: str, revision: str | None = None) -> Path | None:
    """The cached snapshot that holds weight files of a model; None if none was fetched."""
    snapshot = find_snapshot(model_id, revision)
    if snapshot is None:
        return None
    found = any(True for pattern in _WEIGHTS for _ in snapshot.folder.glob(pattern))
    return snapshot.folder if found else None


def cache_folder() -> Path:
    """Where huggingface_hub puts what it fetches. Raises `HubUnavailable` if it cannot say."""
    return Path(client_constants().HF_HUB_CACHE)


def check_access(model_id: str, token: str | None = None) -> None:
    """Ask the Hub whether the files of a model may be fetched, with this token or the user's.

    Raises `GatedModel`, `UnknownModel`, or `HubUnavailable` where it does not answer.
    """
    if is_offline():
        return

    def question() -> None:
        from huggingface_hub import HfApi

        HfApi().auth_check(model_id, token=token)

    hub_client.ask(question)
