"""A remedy as settings."""

from __future__ import annotations

from dataclasses import replace

from planner.diagnosis.remedies import Remedy
from planner.settings import Settings


def remedied(settings: Settings, remedy: Remedy) -> Settings:
    """The settings with the change that a remedy stands for."""
    memory = remedy.memory
    return replace(settings, model=memory.card.model_id, config=memory.config.given)
