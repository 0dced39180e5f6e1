"""Checkpoints, and lists of them, as JSON."""

from __future__ import annotations

from typing import Literal

from model_cards import ModelCard
from planner.report.base import StrictModel


class ModelReport(StrictModel):
    """A checkpoint."""

    id: str
    architecture: str
    parameters: int
    active_parameters: int
    weight_format: str
    quantization: str | None
    fidelity: Literal["exact", "estimated"]
    max_model_len: int
    license: str | None
    source: str
    notes: list[str]

    @classmethod
    def of(cls, card: ModelCard) -> ModelReport:
        """From the library's card."""
        return cls(
            id=card.model_id,
            architecture=card.architecture,
            parameters=card.parameters,
            active_parameters=card.active_parameters,
            weight_format=card.format_kind,
            quantization=card.quantization,
            fidelity=card.fidelity.value,
            max_model_len=card.max_model_len,
            license=card.license,
            source=f"{card.origin.kind}: {card.origin.detail}",
            notes=list(card.notes),
        )


class ModelsReport(StrictModel):
    """`vplan models --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["models"] = "models"
    models: list[ModelReport]


class FoundReport(StrictModel):
    """A model that a search found; null is not known."""

    id: str
    source: Literal["hub", "bundled"]
    bundled: bool
    parameters: int | None
    license: str | None
    gated: bool
    downloads: int | None


class SearchReport(StrictModel):
    """`vplan models search --json`. `problem`: why the Hub's part is missing."""

    schema_version: Literal[1] = 1
    kind: Literal["search"] = "search"
    models: list[FoundReport]
    problem: str | None
