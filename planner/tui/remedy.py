"""What the planner proposes, as settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from planner.diagnosis.remedies import Remedy
from planner.settings import Settings

if TYPE_CHECKING:
    from planner.speed.speculative_option import SpeculativeOption


def remedied(settings: Settings, remedy: Remedy) -> Settings:
    """The settings with the change that a remedy stands for."""
    memory = remedy.memory
    return replace(settings, model=memory.card.model_id, config=memory.config.given)


def speculating(settings: Settings, option: SpeculativeOption) -> Settings:
    """The settings with a speculative method, and the batch that it was judged with."""
    assert option.memory is not None
    config = replace(option.memory.config.given, speculative_config=option.config)
    return replace(settings, config=config)
