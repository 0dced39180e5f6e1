"""The longest context, as vLLM derives it from a config (`_get_and_verify_max_len`)."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import card_of, llama

from model_cards import BadConfig


def lengths(**changes: Any) -> tuple[int, int]:
    """Longest accepted and default."""
    card = card_of(llama(**changes))
    return card.max_model_len, card.default_max_model_len


def rope(**settings: Any) -> dict[str, Any]:
    return {"max_position_embeddings": 4096, "rope_scaling": settings}


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({"max_position_embeddings": 131_072}, 131_072),
        # A factor multiplies, but for kinds whose configured length includes it.
        (rope(rope_type="linear", factor=4.0), 16_384),
        (rope(type="linear", factor=4), 16_384),  # the older key, a whole number
        (rope(rope_type="dynamic", factor=2.0), 8192),
        (rope(rope_type="llama3", factor=8.0, original_max_position_embeddings=2048), 4096),
        (rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024), 4096),
        (rope(rope_type="default"), 4096),
        (rope(rope_type="linear", factor=1.5), 6144),
        # transformers 5 writes `rope_parameters`.
        (
            {"max_position_embeddings": 4096,
             "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            8192,
        ),
        ({"rope_scaling": None, "max_position_embeddings": 4096}, 4096),
        # The smallest of several.
        ({"max_position_embeddings": 4096, "seq_length": 2048, "max_seq_len": 3000}, 2048),
        # Cohere's key overrules all others.
        ({"max_position_embeddings": 4096, "model_max_length": 131_072}, 131_072),
    ],
)  # fmt: skip
def test_lengths(changes: dict[str, Any], length: int) -> None:
    assert lengths(**changes) == (length, length)


def test_longrope_has_two() -> None:
    """Phi 3 takes 128K tokens if asked to, and 4K otherwise, where short factors hold."""
    phi = {
        "architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
        "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]},
    }  # fmt: skip
    assert lengths(**phi) == (131_072, 4096)
    phi["rope_scaling"] = {"type": "su"}  # the older name
    assert lengths(**phi) == (131_072, 4096)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rope_type": "linear", "factor": 0}, "factor must be a finite number above zero"),
        ({"rope_type": "linear", "factor": -4.0}, "factor must be a finite number above zero"),
        ({"rope_type": "linear", "factor": "4"}, "factor must be a number; found '4'"),
        (
            {"rope_type": "linear", "factor": 1e-9},
            "factor must be large enough to leave a position",
        ),
        ({"rope_type": ["linear"]}, "rope_type must be a string"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadConfig) as caught:
        lengths(**rope(**settings))
    assert str(caught.value).startswith("config.json: rope_scaling: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, "4096", 4096.5, True])
def test_lengths_that_cannot_be(value: Any) -> None:
    with pytest.raises(BadConfig, match=r"config\.json: max_position_embeddings must be"):
        lengths(max_position_embeddings=value)


def test_rope_tables_have_a_row_for_every_position() -> None:
    """And the width of a head, or of the part of it that rotates."""
    (table,) = card_of(llama(head_dim=64, max_position_embeddings=512)).rotary
    assert (table.rows, table.width) == (512, 64)
    (table,) = card_of(llama(head_dim=64, partial_rotary_factor=0.25)).rotary
    assert (table.rows, table.width) == (64, 16)
    (table,) = card_of(llama(head_dim=64, **rope(rope_type="linear", factor=4.0))).rotary
    assert table.rows == 16_384
    yarn = rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=1024)
    (table,) = card_of(llama(head_dim=64, **yarn)).rotary
    assert table.rows == 8192
