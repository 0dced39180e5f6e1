"""How good a model is, from published benchmarks: a score with its standard error.

One ability fitted to many benchmarks (data/quality.jsonl says how and from what). Differences
below the joint standard error mean nothing; models within it are tied.
"""

from __future__ import annotations

import re
from functools import cache
from math import hypot
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import replace

from model_cards import ModelCard

# Category of the scores that speaks for a use case.
_CATEGORY: Final = {
    "chat": "chat",
    "code": "code",
    "reasoning": "reasoning",
    "rag": "long_context",
    "agent": "tool_use",
}
# Weight format -> the row of the penalty table.
_PENALTY: Final = {
    "fp8": "fp8",
    "int4": "int4-w4a16",
    "int8": "int8-w8a16",
    "w8a8": "int8-w8a8",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}
_BANDS: Final = ((3e9, "<3B"), (6e9, "3-6B"), (16e9, "6-16B"), (80e9, "16-80B"))
# "-9b", "-35b-a3b", "-e4b", "-8x7b"
_SIZE: Final = re.compile(r"[-_](?:\d+x|e)?\d+(?:\.\d+)?[bm](?:-a\d+(?:\.\d+)?b)?(?![a-z0-9])")
_INT4_EXTRA_ERROR: Final = 1.0  # points; most published pairs come from whoever quantized


class Quality(Struct, frozen=True):
    """A score (Llama-3.1-8B-Instruct = 40, DeepSeek-V3 = 60) with one standard error."""

    score: float
    error: float
    mode: str  # "thinking", "non-thinking" or "default"
    evidence: str
    newest_evidence: str | None

    def tied_with(self, other: Quality, width: float = 1.0) -> bool:
        """Whether the two cannot be told apart: less than `width` joint standard errors."""
        return self is other or abs(self.score - other.score) < width * hypot(
            self.error, other.error
        )


class Mode(Struct, frozen=True):
    """A way a model answers, with its score overall and in single categories."""

    overall: Quality
    categories: dict[str, float]


class RatedModel(Struct, frozen=True):
    """An instruction-tuned model with a score."""

    model_id: str
    released: str
    total_parameters: int
    modes: tuple[Mode, ...]

    def quality(self, use_case: str) -> Quality:
        """The score of its best mode in what the use case asks for."""
        best = max(self.modes, key=lambda mode: mode.overall.score)
        score = best.categories.get(_CATEGORY.get(use_case, ""), best.overall.score)
        return replace(best.overall, score=score)


@cache
def _lines() -> list[dict[str, Any]]:
    text = (Path(__file__).parent / "data" / "quality.jsonl").read_text("utf-8")
    return [decode(line) for line in text.splitlines()]


@cache
def rated_models() -> dict[str, RatedModel]:
    """Every rated base model by lower-case id."""
    found = {}
    for line in _lines()[1:]:
        if "of" in line:
            continue
        found[line["id"].lower()] = RatedModel(
            line["id"],
            line.get("released") or "",
            int(line.get("total") or 0),
            tuple(_mode(name, values) for name, values in line["modes"].items()),
        )
    return found


def _mode(name: str, values: dict[str, Any]) -> Mode:
    overall = Quality(
        float(values["score"]),
        float(values["se"]),
        name,
        values["evidence"],
        values.get("newest_evidence"),
    )
    return Mode(overall, values.get("categories", {}))


@cache
def rated_copies() -> dict[str, list[str]]:
    """Quantized repositories that the ratings know, by lower-case id of their base."""
    found: dict[str, list[str]] = {}
    for line in _lines()[1:]:
        if "of" in line:
            found.setdefault(line["of"].lower(), []).append(line["id"])
    return found


@cache
def base_of() -> dict[str, str]:
    """Base model of each rated quantized repository, by lower-case id."""
    return {line["id"].lower(): line["of"] for line in _lines()[1:] if "of" in line}


class Loss(Struct, frozen=True):
    """Points that a weight format costs, from published pairs, and their error."""

    points: float
    error: float


NO_LOSS: Final = Loss(0.0, 0.0)


def format_loss(weight_format: str, parameters: int) -> Loss:
    """What a copy in a weight format, as `ModelCard.format_kind` names it, loses."""
    if weight_format not in _PENALTY:
        return NO_LOSS
    table = _lines()[0]["penalties"][_PENALTY[weight_format]]
    band = next((name for limit, name in _BANDS if parameters < limit), ">=80B")
    points, low, high = table.get(band, table["all"])
    error = (high - low) / 2
    if weight_format == "int4":
        error = hypot(error, _INT4_EXTRA_ERROR)
    return Loss(max(0.0, points), error)


def quantized(quality: Quality, loss: Loss) -> Quality:
    """The score of a copy that loses so much."""
    error = hypot(quality.error, loss.error)
    return replace(quality, score=quality.score - loss.points, error=error)


_SUFFIX: Final = re.compile(r"-(?:it|instruct|chat|thinking|base|bf16|reasoning|\d{4})(?=-|$)")


@cache
def family(model_id: str) -> str:
    """A model's series whatever its task: Qwen3-4B-Thinking-2507 and Qwen3-32B are both Qwen3."""
    name = series(model_id)
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    return name


@cache
def series(model_id: str) -> str:
    """A model's name without its size: what Qwen3.5-4B and Qwen3.5-9B have in common."""
    return _SIZE.sub("", model_id.lower())


def quality_of(card: ModelCard, use_case: str) -> Quality | None:
    """The score of a checkpoint, or of the model that it is a copy of; None if nobody rated it."""
    base = base_of().get(card.model_id.lower(), card.model_id)
    model = rated_models().get(base.lower())
    if model is None:
        return None
    loss = NO_LOSS
    if base.lower() != card.model_id.lower():
        loss = format_loss(card.format_kind, model.total_parameters)
    return quantized(model.quality(use_case), loss)
