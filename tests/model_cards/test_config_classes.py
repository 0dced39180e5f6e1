"""What a config.json leaves to its model class."""

from __future__ import annotations

from model_cards.config import Config
from model_cards.config_classes import through_class


def read(**values: object) -> Config:
    return through_class(Config(values, "config.json"))


def test_absent_keys_have_the_default_of_the_class() -> None:
    config = read(model_type="cohere")
    assert config.integer("max_position_embeddings") == 8192
    assert config.boolean("tie_word_embeddings", False)


def test_keys_of_the_file_win_and_null_stays_null() -> None:
    config = read(model_type="exaone4", max_position_embeddings=131072, sliding_window=None)
    assert config.integer("max_position_embeddings") == 131072
    assert "sliding_window" not in config


def test_gpt2_has_names_of_its_own() -> None:
    config = read(model_type="gpt2", n_embd=768, n_head=12, n_layer=12)
    assert config.integer("hidden_size") == 768
    assert config.head_size == 64
    assert config.num_layers == 12
    assert config.integer("max_position_embeddings") == 1024


def test_other_types_are_left_alone() -> None:
    assert list(read(model_type="mystery", hidden_size=8)) == ["model_type", "hidden_size"]


def test_the_text_part_has_a_class_of_its_own() -> None:
    config = read(model_type="gemma3", text_config={"hidden_size": 2560})
    assert config.text.integer("hidden_size") == 2560
    assert config.text.integer("num_attention_heads") == 8
    moe = read(text_config={"model_type": "qwen3_vl_moe_text", "num_local_experts": 128})
    assert moe.text.integer("num_experts") == 128
