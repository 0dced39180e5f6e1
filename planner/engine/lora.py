"""LoRA as `--enable-lora` sets it up, and what adapters can change in a model class."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from planner.engine.architectures import class_tables, registered
from planner.engine.releases import Release
from planner.engine_config import EngineConfig

# The logits of larger vocabularies have no LoRA kernel.
MAX_VOCABULARY: Final = 258048
LORA_RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)


class LoraSlots(Struct, frozen=True):
    """Room for `max_loras` adapters of rank `max_lora_rank` in every layer that they can change."""

    max_loras: int
    max_lora_rank: int
    fully_sharded: bool  # A of column-parallel and B of row-parallel layers are split too
    embeddings: bool  # the token embedding and the output head too
    fused_experts: bool  # one A for gate and up of an expert


def lora_slots(architecture: str, config: EngineConfig, release: Release) -> LoraSlots | None:
    """The slots of a launch; None without LoRA."""
    if not config.enable_lora:
        return None
    classes, architecture = class_tables(release), registered(architecture, release)
    return LoraSlots(
        config.max_loras or 1,
        config.max_lora_rank or 16,
        config.fully_sharded_loras,
        embeddings=architecture in classes["lora_embeddings"],
        fused_experts=architecture in classes["lora_3d_experts"],
    )


def takes_adapters(architecture: str, release: Release) -> bool:
    """Whether the model class supports LoRA."""
    return registered(architecture, release) in class_tables(release)["lora"]
