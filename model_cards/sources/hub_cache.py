"""huggingface_hub's cache, as vLLM and transformers fill it too, read without its client.

The layout is documented (huggingface_hub, "Understand caching"): `models--ORG--NAME/refs/REVISION`
holds a commit, `snapshots/COMMIT/` its files as links to blobs. To read it takes a millisecond,
to import the client that also downloads a tenth of a second.
"""

from __future__ import annotations

import os
import re
from datetime import date
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from model_cards.errors import HubUnavailable

_PART: Final = re.compile(r"[\w.-]+", re.ASCII)
_LONGEST_COMMIT: Final = 64


class Snapshot(Struct, frozen=True):
    """The files of one commit, as far as they were fetched."""

    folder: Path
    fetched: date

    @property
    def commit(self) -> str:
        """The commit's hash."""
        return self.folder.name


def client_constants() -> Any:
    """huggingface_hub's folders and addresses; nothing heavy.

    Raises `HubUnavailable` where a variable of the environment keeps it from being imported.
    """
    try:
        from huggingface_hub import constants
    except (ValueError, OSError) as error:
        raise HubUnavailable(
            f"huggingface_hub refuses a variable of its own, HF_...: {error}"
        ) from None
    return constants


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE is set."""
    try:
        return bool(client_constants().HF_HUB_OFFLINE)
    except HubUnavailable:  # whoever asks the Hub is told so
        return False


def find_snapshot(model_id: str, revision: str | None = None) -> Snapshot | None:
    """The cached files of a model at a branch, tag or commit; None without a config.json there."""
    parts = model_id.split("/")
    if not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        return None
    try:
        cache = Path(client_constants().HF_HUB_CACHE)
    except HubUnavailable:  # whoever asks the Hub is told so
        return None
    repository = cache / "--".join(("models", *parts))
    commit = _commit(repository, revision or "main")
    if commit is None:
        return None
    config = repository / "snapshots" / commit / "config.json"
    try:
        if not config.is_file():
            return None
        fetched = date.fromtimestamp(os.stat(config).st_mtime)
    except (OSError, ValueError, OverflowError):  # not readable, or a time beyond the calendar
        return None
    return Snapshot(config.parent, fetched)


def _commit(repository: Path, revision: str) -> str | None:
    """The commit of a revision's name; what is no name that stays in the folder is none."""
    parts = revision.split("/")
    if not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        return None
    try:
        with (repository / "refs").joinpath(*parts).open(encoding="ascii") as stream:
            revision = stream.read(_LONGEST_COMMIT).strip()
    except (OSError, ValueError):
        pass  # a commit, or not cached
    return revision if _PART.fullmatch(revision) else None
