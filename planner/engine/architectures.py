"""Which model classes a vLLM release has."""

from __future__ import annotations

from enum import Enum

from planner.engine.releases import Release, read_data


class ModelSupport(Enum):
    """How a release serves an architecture."""

    NATIVE = "vLLM's own class"
    TRANSFORMERS = "through the Transformers backend"
    DROPPED = "no longer"
    NONE = "not"
    UNKNOWN = "not known for this release"


def model_support(architecture: str, release: Release) -> ModelSupport:
    """How `release` serves `architecture`; only releases whose registry was read are known."""
    tables = read_data("architectures.json").get(release.name)
    if tables is None:
        return ModelSupport.UNKNOWN
    for kind, support in (
        ("native", ModelSupport.NATIVE),
        ("transformers", ModelSupport.TRANSFORMERS),
        ("dropped", ModelSupport.DROPPED),
    ):
        if architecture in tables[kind]:
            return support
    return ModelSupport.NONE


def supports_balancing(architecture: str, release: Release) -> bool:
    """Whether the model class lets experts be balanced; a release not read is as the newest."""
    tables = read_data("architectures.json")
    found = tables.get(release.name) or tables[max(tables)]
    return architecture in found["eplb"]


def supports_pipeline(architecture: str, release: Release) -> bool:
    """Whether the model class can be split into pipeline stages, as far as it was read."""
    tables = read_data("architectures.json").get(release.name, {})
    return architecture not in tables.get("no_pipeline", ())
