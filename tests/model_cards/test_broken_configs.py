"""Whatever stands in a config.json: a card, or one line about what is wrong; never a traceback."""

from __future__ import annotations

import random

import pytest
from mutated_configs import ORIGINALS, changed

from model_cards.caches import Attention
from model_cards.card import ModelCard
from model_cards.errors import CardError

SEEDS = range(20)
CHANGED_PER_SEED = 50


def look_at(card: ModelCard) -> None:
    """What planning asks of a card: nothing of it may fail, nothing may be negative."""
    counts = [
        card.parameters, card.active_parameters, card.weight_bytes, card.max_intermediate_size,
        card.experts_per_token, card.max_model_len - 1, card.default_max_model_len - 1,
        *(table.rows for table in card.rotary), *(table.width for table in card.rotary),
    ]  # fmt: skip
    assert min(counts) >= 0
    caches = [cache for layer in card.layers for cache in layer.caches]
    assert all(cache.head_size > 0 for cache in caches if isinstance(cache, Attention))
    assert card.format_kind
    hash(card)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_config_is_a_card_or_one_line(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CHANGED_PER_SEED):
        checkpoint = changed(rng)
        try:
            look_at(checkpoint.card())
        except CardError as error:
            if not str(error).isprintable():
                pytest.fail(f"{checkpoint.what}: {error!r}")
        except Exception as error:
            pytest.fail(f"{checkpoint.what}: {type(error).__name__}: {error}")


def test_the_originals_cover_what_is_modelled() -> None:
    assert len(ORIGINALS) >= 60
    methods = {
        (values.get("quantization_config") or {}).get("quant_method") for _, values, _ in ORIGINALS
    }
    assert methods >= {None, "fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4"}
    assert any(side is not None for _, _, side in ORIGINALS)
