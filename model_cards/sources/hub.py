"""The Hugging Face Hub and its local cache, through huggingface_hub.

Token, endpoint, cache folder and offline mode are huggingface_hub's own (HF_TOKEN, HF_ENDPOINT,
HF_HOME, HF_HUB_OFFLINE). Only config files and headers are fetched, never weights, never code.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config, read_json_object, shorten
from model_cards.errors import CardError, GatedModel, HubUnavailable, UnknownModel
from model_cards.facts import Facts
from model_cards.inventory import BITS
from model_cards.sources.headers import Totals, totals
from model_cards.sources.hub_headers import fetch_contents
from model_cards.sources.local import folder_facts
from model_cards.sources.pooling_files import read_pooling_files

# A user waits this long for a slow or dead Hub before the next source is taken.
DEADLINE_SECONDS: Final = 3.0
# The part of it after which headers that are still under way are done without.
_HEADERS_SHARE: Final = 0.8

_THREAD: Final = "model_cards.hub"

T = TypeVar("T")


def open_cached(model_id: str, revision: str | None = None) -> ModelCard | None:
    """The card of a model whose config.json is in huggingface_hub's cache, else None."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model_id, "config.json", revision=revision)
    except HFValidationError:  # no id that the Hub would give, so nothing cached
        return None
    if not isinstance(found, str):
        return None
    path = Path(found)
    config = Config(read_json_object(path), f"{model_id}: config.json")
    snapshot = path.parent
    return build_card(
        model_id, config, Origin("cache", snapshot.name), folder_facts(snapshot, config)
    )


def open_online(model_id: str, revision: str | None = None) -> ModelCard:
    """The card of a model on the Hub.

    Raises `HubUnavailable` within `DEADLINE_SECONDS` if the Hub does not answer, `UnknownModel`
    if it has no such model (or no config.json in it), `GatedModel` if it wants a token.
    """
    until = time.monotonic() + _HEADERS_SHARE * DEADLINE_SECONDS
    return _with_deadline(lambda: _open_online(model_id, revision, until))


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE is set."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _open_online(model_id: str, revision: str | None, until: float) -> ModelCard:
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    info = HfApi().model_info(model_id, revision=revision, timeout=DEADLINE_SECONDS)
    files = {sibling.rfilename for sibling in info.siblings or ()}

    def fetch(name: str) -> Path | None:
        if name not in files:
            return None
        try:
            # By the revision's name, not by its hash: else the cache could not find it by name.
            return Path(
                hf_hub_download(model_id, name, revision=revision, etag_timeout=DEADLINE_SECONDS)
            )
        except LocalEntryNotFoundError:  # the Hub stopped answering; a subclass of the next
            raise
        except EntryNotFoundError:
            return None

    path = fetch("config.json")
    if path is None:
        raise UnknownModel("the Hub's repository has no config.json, as a model for vLLM would")
    side = fetch("hf_quant_config.json")
    config = Config(read_json_object(path), f"{model_id}: config.json")
    pooling = read_pooling_files(config, fetch)
    found = fetch_contents(model_id, revision, files, until)
    stored = found.totals if found is not None else _totals(info)
    facts = Facts(
        parameters=stored.parameters if stored is not None else None,
        checkpoint_bytes=stored.bytes if stored is not None else None,
        license=_license(info),
        side_file=Config(read_json_object(side), side.name) if side is not None else None,
        inventory=found.inventory if found is not None else None,
        pooling=pooling,
    )
    origin = Origin("hub", f"revision {info.sha}" if info.sha else "latest revision")
    return build_card(info.id or model_id, config, origin, facts)


def _license(info: Any) -> str | None:
    """The licence that the model's page names; free-form, so anything but one name is dropped."""
    name = getattr(info.card_data, "license", None) if info.card_data else None
    return name if isinstance(name, str) else None


def _totals(info: Any) -> Totals | None:
    """Totals of the safetensors files from the element count of every dtype."""
    counts = getattr(info.safetensors, "parameters", None) if info.safetensors else None
    if not isinstance(counts, dict) or not counts:
        return None
    known = all(d in BITS and type(count) is int and count >= 0 for d, count in counts.items())
    return totals(counts) if known else None


def _with_deadline(work: Callable[[], T]) -> T:
    """`work` in a thread that cannot hold up the caller: huggingface_hub retries for 23 s."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    for handler in logging.getLogger("huggingface_hub").handlers:
        handler.addFilter(_is_not_ours)
    thread = threading.Thread(target=run, name=_THREAD, daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    if results:
        return results[0]
    if errors:
        raise _translate(errors[0]) from None
    raise HubUnavailable(f"the Hub did not answer within {DEADLINE_SECONDS:.0f} s")


def _is_not_ours(record: logging.LogRecord) -> bool:
    """Keeps huggingface_hub's warnings about retries off the terminal: the caller has moved on."""
    return record.threadName != _THREAD


def _translate(error: BaseException) -> BaseException:
    """The Hub client's errors in the user's terms."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, CardError):
        return error
    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # why the file, not cached either, could not be had
    if isinstance(error, GatedRepoError):  # before its base class RepositoryNotFoundError
        return GatedModel(
            "the Hub wants an accepted licence: accept it on the model's page, then set HF_TOKEN"
        )
    if isinstance(error, RevisionNotFoundError):
        return UnknownModel("the Hub has no such revision of this model")
    if isinstance(error, RepositoryNotFoundError):
        return UnknownModel("the Hub has no model of that name")
    if isinstance(error, HFValidationError):
        return UnknownModel("the Hub allows no such name")
    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
        return HubUnavailable(
            f"the Hub refuses access (status {error.response.status_code}); check HF_TOKEN"
        )
    if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
        return error
    if isinstance(error, (ValueError, TypeError, LookupError)):
        return HubUnavailable(f"the Hub's answer makes no sense ({type(error).__name__})")
    reason = str(error).strip().splitlines()
    return HubUnavailable(
        f"the Hub did not answer ({shorten(reason[0] if reason else type(error).__name__, 80)})"
    )
