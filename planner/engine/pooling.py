"""The pooling runner: whether a launch pools hidden states, and what vLLM makes of the model then.

From `ModelConfig` of vLLM 0.33.0 (config/model.py); checked against its own answers in
tests/planner/test_oracle.py.
"""

from __future__ import annotations

from model_cards.card import ModelCard
from planner.engine_config import EngineConfig


def is_pooled(card: ModelCard, config: EngineConfig) -> bool:
    """Whether the launch pools: as `--runner` says, else as a conversion or the model asks for."""
    if config.runner != "auto":
        return config.runner == "pooling"
    return config.convert in ("embed", "classify") or card.pooling.pools


def conversion(card: ModelCard, config: EngineConfig) -> str:
    """What `--convert` comes to for a pooled model."""
    return card.pooling.convert if config.convert == "auto" else config.convert


def runner_problem(card: ModelCard, config: EngineConfig) -> str | None:
    """Why vLLM cannot run the model so; None if it can."""
    pooling = card.pooling
    if not is_pooled(card, config):
        if config.convert in ("embed", "classify"):
            return f"--convert {config.convert} is for --runner pooling"
        if pooling.native:
            return f"{card.architecture} pools; it does not support --runner generate"
        if card.lm_head is not None and card.lm_head.rows == 0:
            return "its checkpoint has no output head to generate text with"
        return None
    if not pooling.native and conversion(card, config) == "none":
        return (
            f"{card.architecture} does not support --runner pooling without --convert embed or "
            "--convert classify"
        )
    return None
