"""The pass of multimodal encoders that vLLM profiles before the text pass.

It encodes as many dummy images of the largest size as a batch has room for, and keeps them and what
they come to while the other passes run (profile_run in v1/worker/gpu_model_runner.py; Model Runner
V2 keeps only the latter, v1/worker/gpu/mm/encoder_runner.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from model_cards.card import ModelCard, Tower, count_same
from model_cards.modules import Linear
from planner.engine.defaults import ResolvedConfig
from planner.engine.releases import Release
from planner.memory.constants import constant
from planner.quantity import Quantity

# Patches that become one token of the text model: 2 x 2, but for these.
_PATCHES_PER_TOKEN: Final = 4
_MERGED_WIDER: Final = {"gemma3": 16, "gemma4": 9}
_PIXELS_PER_PATCH: Final = 3 * 14 * 14


def encoded_bytes(card: ModelCard, config: ResolvedConfig) -> Quantity:
    """What the dummy images come to, up to a batch of hidden states, and their pixels."""
    if not _encodes(card, config):
        return Quantity.exact(0)
    features = config.max_num_batched_tokens * card.hidden_size
    pixels = 0 if config.model_runner_v2 else _patches(card, config) * _PIXELS_PER_PATCH
    return Quantity.exact((features + pixels) * config.dtype_bytes)


def encoder_pass(card: ModelCard, config: ResolvedConfig, release: Release) -> Quantity:
    """Hidden-size copies of every patch, and the MLP of the widest tower.

    The first layers of a tower see all patches of the batch at once.
    """
    if not _encodes(card, config):
        return Quantity.exact(0)
    size = _patches(card, config) * _widest(card) * config.dtype_bytes
    factor = constant("encoder_widths", release)
    return replace(factor.times(size), source="encoder: patches of a batch x tower")


def _encodes(card: ModelCard, config: ResolvedConfig) -> bool:
    return bool(card.towers) and not config.given.language_model_only


def _patches(card: ModelCard, config: ResolvedConfig) -> int:
    per_token = _MERGED_WIDER.get(card.model_type, _PATCHES_PER_TOKEN)
    return per_token * config.max_num_batched_tokens


@lru_cache(maxsize=256)
def _widest(card: ModelCard) -> int:
    return max(_patch_features(tower) for tower in card.towers)


def _patch_features(tower: Tower) -> int:
    """Features of a patch in the widest linear layer of a tower, in and out."""
    return max(
        (
            module.inputs + sum(output.size for output in module.outputs)
            for module, _ in count_same(tower.modules)
            if isinstance(module, Linear)
        ),
        default=0,
    )
