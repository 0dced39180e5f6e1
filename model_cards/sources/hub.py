"""The Hugging Face Hub and its local cache, through huggingface_hub.

Token, endpoint, cache folder and offline mode are huggingface_hub's own (HF_TOKEN, HF_ENDPOINT,
HF_HOME, HF_HUB_OFFLINE). Only config files are fetched, never weights, never code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config, read_json_object, shorten
from model_cards.errors import GatedModel, HubUnavailable, UnknownModel
from model_cards.facts import Facts
from model_cards.sources.headers import BITS
from model_cards.sources.local import index_bytes

# A user waits this long for a slow or dead Hub before the next source is taken.
DEADLINE_SECONDS: Final = 3.0

T = TypeVar("T")


def open_cached(model_id: str, revision: str | None = None) -> ModelCard | None:
    """The card of a model whose config.json is in huggingface_hub's cache, else None."""
    path = _cached_file(model_id, "config.json", revision)
    if path is None:
        return None
    side = _cached_file(model_id, "hf_quant_config.json", revision)
    index = _cached_file(model_id, "model.safetensors.index.json", revision)
    facts = Facts(
        checkpoint_bytes=index_bytes(index) if index is not None else None,
        side_file=Config(read_json_object(side), side.name) if side is not None else None,
    )
    config = Config(read_json_object(path), f"{model_id}: config.json")
    return build_card(model_id, config, Origin("cache", path.parent.name), facts)


def open_online(model_id: str, revision: str | None = None) -> ModelCard:
    """The card of a model on the Hub.

    Raises `HubUnavailable` within `DEADLINE_SECONDS` if the Hub does not answer, `UnknownModel`
    if it has no such model (or no config.json in it), `GatedModel` if it wants a token.
    """
    return _with_deadline(lambda: _open_online(model_id, revision))


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE is set."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _cached_file(model_id: str, name: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model_id, name, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _open_online(model_id: str, revision: str | None) -> ModelCard:
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    info = HfApi().model_info(model_id, revision=revision, timeout=DEADLINE_SECONDS)
    files = {sibling.rfilename for sibling in info.siblings or ()}

    def fetch(name: str) -> Path | None:
        if name not in files:
            return None
        try:
            return Path(
                hf_hub_download(model_id, name, revision=info.sha, etag_timeout=DEADLINE_SECONDS)
            )
        except LocalEntryNotFoundError:  # the Hub stopped answering; a subclass of the next
            raise
        except EntryNotFoundError:
            return None

    path = fetch("config.json")
    if path is None:
        raise UnknownModel(f"{model_id} has no config.json on the Hub; is it a model for vLLM?")
    side = fetch("hf_quant_config.json")
    config = Config(read_json_object(path), f"{model_id}: config.json")
    facts = Facts(
        checkpoint_bytes=_stored_bytes(info),
        license=getattr(info.card_data, "license", None) if info.card_data else None,
        side_file=Config(read_json_object(side), side.name) if side is not None else None,
    )
    origin = Origin("hub", f"revision {info.sha}" if info.sha else "latest revision")
    return build_card(info.id or model_id, config, origin, facts)


def _stored_bytes(info: Any) -> int | None:
    """Bytes of the safetensors files from the element count of every dtype."""
    counts = getattr(info.safetensors, "parameters", None) if info.safetensors else None
    if not isinstance(counts, dict) or not counts:
        return None
    if not all(dtype in BITS and type(count) is int for dtype, count in counts.items()):
        return None
    bits: int = sum(count * BITS[dtype] for dtype, count in counts.items())
    return bits // 8


def _with_deadline(work: Callable[[], T]) -> T:
    """`work` in a thread that cannot hold up the caller: huggingface_hub retries for 23 s."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="hub", daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    if results:
        return results[0]
    if errors:
        raise _translate(errors[0]) from None
    raise HubUnavailable(f"the Hub did not answer within {DEADLINE_SECONDS:.0f} s")


def _translate(error: BaseException) -> BaseException:
    """The Hub client's errors in the user's terms."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, ValueError) and not isinstance(error, HFValidationError):
        return error  # CardError among them
    if isinstance(error, GatedRepoError):  # before its base class RepositoryNotFoundError
        return GatedModel(
            "the Hub wants an accepted licence: accept it on the model's page, then set HF_TOKEN"
        )
    if isinstance(error, RevisionNotFoundError):
        return UnknownModel("the Hub has no such revision of this model")
    if isinstance(error, RepositoryNotFoundError):
        return UnknownModel("the Hub has no model of that name")
    if isinstance(error, HFValidationError):
        return UnknownModel(f"not a Hub model id ({shorten(str(error).splitlines()[0])})")
    if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
        return error
    reason = str(error).strip().splitlines()
    return HubUnavailable(
        f"the Hub did not answer ({shorten(reason[0] if reason else type(error).__name__, 80)})"
    )
