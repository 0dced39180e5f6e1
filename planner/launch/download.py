"""Whether the weights of a launch can be had, and whether there is room for them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from model_cards import CardError, ModelCard
from model_cards.errors import GatedModel, HubUnavailable, UnknownModel
from model_cards.sources.access import cache_folder, cached_weights, check_access
from planner.findings import Finding, Severity

_GIB: Final = 2**30
_SPARE: Final = 2**30  # what a disk should keep


class Download(Struct, frozen=True):
    """What is still to be fetched, in bytes (None: not known), and what is wrong with that."""

    size: int | None
    findings: tuple[Finding, ...]


def about_download(
    card: ModelCard, revision: str | None, dummy: bool, environ: Mapping[str, str]
) -> Download | None:
    """The download before a launch; None where the weights are here, or are made up (`dummy`)."""
    if dummy or card.origin.kind == "folder" or cached_weights(card.model_id, revision):
        return None
    findings = []
    try:
        check_access(card.model_id, environ.get("HF_TOKEN"))
    except (GatedModel, UnknownModel) as error:
        findings.append(Finding("model", Severity.ERROR, f"{card.model_id}: {error}"))
    except HubUnavailable as error:
        text = f"{card.model_id} is not in the cache, and {error}"
        findings.append(Finding("hub", Severity.WARNING, text))
    except CardError as error:
        findings.append(Finding("hub", Severity.WARNING, f"{card.model_id}: {error}"))
    size = card.checkpoint_bytes
    free = _free(cache_folder())
    if size is not None and free is not None and size + _SPARE > free:
        text = (
            f"{card.model_id} takes {size / _GIB:.1f} GiB to fetch, and {cache_folder()} has "
            f"{free / _GIB:.1f} GiB free"
        )
        findings.append(Finding("disk", Severity.ERROR, text, "HF_HOME names another disk"))
    return Download(size, tuple(findings))


def _free(folder: Path) -> int | None:
    """Bytes free on the disk of a folder that need not be there yet."""
    for place in (folder, *folder.parents):
        if place.exists():
            try:
                return shutil.disk_usage(place).free
            except OSError:
                return None
    return None
