"""Short ways to plan a launch of a bundled model."""

from __future__ import annotations

from typing import Any

from hardware_db import find_rig
from model_cards.card import ModelCard
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig, MemoryPlan, plan_memory


def bundled(model_id: str) -> ModelCard:
    """A card of the bundled snapshot, whatever the Hub or its cache hold."""
    card = open_bundled(model_id)
    assert card is not None, model_id
    return card


def plan(
    model: str | ModelCard = "Qwen/Qwen3-8B",
    rig: str = "4090",
    release: str = "0.33.0",
    *,
    draft: str | None = None,
    **settings: Any,
) -> MemoryPlan:
    """The memory plan of a model on a rig with these EngineConfig settings."""
    card = bundled(model) if isinstance(model, str) else model
    drafting = bundled(draft) if draft is not None else None
    config = EngineConfig(**settings)
    return plan_memory(card, find_rig(rig), config, draft=drafting, vllm=release)
