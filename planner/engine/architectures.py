"""Which model classes a vLLM release has."""

from __future__ import annotations

from enum import Enum

from model_cards.pooling import base_names
from planner.engine.releases import Release, read_data


class ModelSupport(Enum):
    """How a release serves an architecture."""

    NATIVE = "vLLM's own class"
    TRANSFORMERS = "through the Transformers backend"
    DROPPED = "no longer"
    NONE = "not"
    UNKNOWN = "not known for this release"


def model_support(architecture: str, release: Release) -> ModelSupport:
    """How `release` serves `architecture`, as far as its registry was read.

    A class that vLLM makes pool is as good as one of its own. Of a release that was not read it is
    known what it cannot have: vLLM lists the classes that it dropped.
    """
    document = read_data("architectures.json")
    tables = document.get(release.name)
    support = _support(architecture, tables or document[max(document)])
    if tables is None and support is not ModelSupport.NONE:
        return ModelSupport.UNKNOWN
    return support


def _support(architecture: str, tables: dict[str, list[str]]) -> ModelSupport:
    for kind, support in (
        ("native", ModelSupport.NATIVE),
        ("transformers", ModelSupport.TRANSFORMERS),
        ("dropped", ModelSupport.DROPPED),
    ):
        if architecture in tables[kind]:
            return support
    if any(name in tables["native"] for name in base_names(architecture)):
        return ModelSupport.NATIVE
    return ModelSupport.NONE


def registered(architecture: str, release: Release) -> str:
    """The name of the class that runs `architecture`: its own, else the one that is adapted."""
    native = class_tables(release)["native"]
    names = (architecture, *base_names(architecture))
    return next((name for name in names if name in native), architecture)


def is_registered(architecture: str) -> bool:
    """Whether the newest release read has a class of that name."""
    document = read_data("architectures.json")
    return architecture in document[max(document)]["native"]


def class_tables(release: Release) -> dict[str, list[str]]:
    """Model classes by what they support; a release that was not read is taken for the newest."""
    document = read_data("architectures.json")
    tables: dict[str, list[str]] = document.get(release.name) or document[max(document)]
    return tables


def supports_balancing(architecture: str, release: Release) -> bool:
    """Whether the model class lets experts be balanced; a release not read is as the newest."""
    return registered(architecture, release) in class_tables(release)["eplb"]


def supports_pipeline(architecture: str, release: Release) -> bool:
    """Whether the model class can be split into pipeline stages, as far as it was read."""
    tables = read_data("architectures.json").get(release.name, {})
    return registered(architecture, release) not in tables.get("no_pipeline", ())
