"""A model of the Hugging Face Hub, or of its local cache, to its card.

Only config files and headers are fetched, never weights, never code.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import MAX_CONFIG_BYTES, Config, is_total, read_json_object
from model_cards.errors import BadConfig, CardError, GatedModel, UnknownModel
from model_cards.facts import Facts
from model_cards.inventory import BITS
from model_cards.sources import hub_client
from model_cards.sources.generation import read_generation
from model_cards.sources.headers import Totals, totals
from model_cards.sources.hub_cache import find_snapshot
from model_cards.sources.hub_errors import translate
from model_cards.sources.hub_headers import fetch_contents
from model_cards.sources.local import folder_facts
from model_cards.sources.pooling_files import read_pooling_files

# The part of the deadline after which headers that are still under way are done without.
_HEADERS_SHARE: Final = 0.8
_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
# Weight files that vLLM loads, in the order of its preference; the sizes of the first kind count.
_WEIGHTS: Final = (
    re.compile(r"(?!consolidated)[^/]+\.safetensors"),
    re.compile(r"consolidated[^/]*\.safetensors"),
    re.compile(r"pytorch_model[^/]*\.bin"),
    re.compile(r"[^/]+\.(bin|pt)"),
)


def open_cached(model_id: str, revision: str | None = None) -> ModelCard | None:
    """The card of a model whose config.json is in huggingface_hub's cache, else None.

    vLLM and transformers leave the weights there too, whose headers then tell the rest; else what
    the Hub said of them when it was asked stands in.
    """
    snapshot = find_snapshot(model_id, revision)
    if snapshot is None:
        return None
    path = snapshot.folder / "config.json"
    config = Config(read_json_object(path), f"{model_id}: config.json")
    facts = folder_facts(snapshot.folder, config)
    if facts.inventory is None:
        facts = _kept_facts(model_id, snapshot.commit) or facts
    detail = f"revision {snapshot.commit}, fetched on {snapshot.fetched.isoformat()}"
    origin = Origin("cache", detail, revision=revision)
    return build_card(model_id, config, origin, facts)


def open_online(model_id: str, revision: str | None = None) -> ModelCard:
    """The card of a model on the Hub.

    Raises `HubUnavailable` within the client's deadline if the Hub does not answer,
    `UnknownModel` if it has no such model (or no config.json in it), `GatedModel` if it wants a
    token, `BadConfig` for what its files hold.
    """
    until = time.monotonic() + _HEADERS_SHARE * hub_client.DEADLINE_SECONDS

    def question() -> ModelCard:
        with ExitStack() as closing:
            return _open_online(model_id, revision, until, closing)

    card = hub_client.ask(question)
    from model_cards.sources.kept import Kept, save

    with suppress(OSError):  # a cache is a convenience
        save(_facts_file(model_id), Kept.of(card))
    return card


def _open_online(
    model_id: str, revision: str | None, until: float, closing: ExitStack
) -> ModelCard:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, LocalEntryNotFoundError

    timeout = hub_client.DEADLINE_SECONDS
    info = HfApi().model_info(model_id, revision=revision, timeout=timeout, files_metadata=True)
    files = {sibling.rfilename: sibling.size for sibling in info.siblings or ()}

    def fetch(name: str) -> Path | None:
        if name not in files:
            return None
        if _size(files[name]) > MAX_CONFIG_BYTES:
            raise BadConfig(f"{name} is larger than {MAX_CONFIG_BYTES >> 20} MiB; not read")
        try:
            return _download(model_id, name, revision, closing)
        except LocalEntryNotFoundError:  # the Hub stopped answering; a subclass of the next
            raise
        except EntryNotFoundError:
            return None

    try:
        path = fetch("config.json")
    except GatedRepoError as error:
        raise _gated(error, _totals(info, files)) from None
    if path is None:
        from model_cards.sources.hub_gguf import quants

        has = quants(files)
        gguf = f"; of its GGUF files name one: {model_id}:{has[0]}" if has else ""
        raise UnknownModel(
            f"the Hub's repository has no config.json, as a model for vLLM would{gguf}"
        )
    config = Config(read_json_object(path), f"{model_id}: config.json")
    side = fetch("hf_quant_config.json")
    generation = fetch("generation_config.json")
    pooling = read_pooling_files(config, fetch)
    found = fetch_contents(model_id, revision, files, fetch, until)
    stored = found.totals if found is not None else _totals(info, files)
    facts = Facts(
        parameters=stored.parameters if stored is not None else None,
        checkpoint_bytes=stored.bytes if stored is not None else None,
        license=_license(info),
        side_file=Config(read_json_object(side), side.name) if side is not None else None,
        inventory=found.inventory if found is not None else None,
        pooling=pooling,
        generation=read_generation(generation),
    )
    origin = Origin("hub", told_revision(info), revision=revision)
    return build_card(told_id(info, model_id), config, origin, facts)


def told_id(info: Any, asked: str) -> str:
    """A model's id as the Hub spells it, which may have renamed it; as asked for if it is none."""
    told = info.id
    return told if isinstance(told, str) and _ID.fullmatch(told) else asked


def told_revision(info: Any) -> str:
    """Which commit a description is of, in words."""
    return f"revision {info.sha}" if isinstance(info.sha, str) and info.sha else "latest revision"


def _download(model_id: str, name: str, revision: str | None, closing: ExitStack) -> Path:
    """A small file, in the cache, else in a folder that is there until `closing` closes."""
    from tempfile import TemporaryDirectory

    from huggingface_hub import hf_hub_download

    def download(cache: str | None) -> Path:
        # By the revision's name, not by its hash: else the cache could not find it by name.
        timeout = hub_client.DEADLINE_SECONDS
        return Path(
            hf_hub_download(
                model_id, name, revision=revision, etag_timeout=timeout, cache_dir=cache
            )
        )

    try:
        return download(None)
    except OSError as error:
        if error.errno is None:  # an answer of the Hub's
            raise
    # The cache is full, read-only or another's.
    return download(closing.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))


def _gated(error: BaseException, stored: Totals | None) -> CardError:
    """That a licence is wanted, with the totals that the Hub tells all the same."""
    problem = translate(error)
    assert isinstance(problem, GatedModel)
    if stored is not None:
        problem.parameters, problem.checkpoint_bytes = stored.parameters, stored.bytes
    return problem


def _facts_file(model_id: str) -> Path:
    from platformdirs import user_cache_path

    name = f"{model_id.lower().replace('/', '--')}.json"
    return user_cache_path("vplan", appauthor=False) / "hub" / name


def _kept_facts(model_id: str, commit: str) -> Facts | None:
    """What the Hub said of this commit when it was asked; None if it was not, or of another."""
    from model_cards.sources.kept import load

    try:
        kept = load(_facts_file(model_id))
    except CardError:
        return None
    return kept.facts if kept.origin.detail == f"revision {commit}" else None


def _license(info: Any) -> str | None:
    """The licence that the model's page names; free-form, so anything but one name is dropped."""
    name = getattr(info.card_data, "license", None) if info.card_data else None
    return name if isinstance(name, str) else None


def _totals(info: Any, files: Mapping[str, Any]) -> Totals | None:
    """Totals of the weights: by the element count of every dtype, else by the files' sizes."""
    counts = getattr(info.safetensors, "parameters", None) if info.safetensors else None
    if not isinstance(counts, dict):
        counts = {}
    if counts and all(dtype in BITS and is_total(count) for dtype, count in counts.items()):
        return totals(counts)
    for kind in _WEIGHTS:
        size = sum(_size(size) for name, size in files.items() if kind.fullmatch(name))
        if size:
            return Totals(size, None)
    return None


def _size(size: Any) -> int:
    return size if is_total(size) else 0
