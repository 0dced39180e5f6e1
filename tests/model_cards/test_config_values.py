"""Every value of a config.json is asked for by type; a wrong one is one clear line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tiny_models import DELTA_NET, card_of, llama

from model_cards.config import Config
from model_cards.errors import BadConfig, CardError, UnsupportedModel


def refusal(read: Callable[[], object]) -> str:
    """The message of the `BadConfig` that `read` raises: one printable line."""
    with pytest.raises(BadConfig) as caught:
        read()
    message = str(caught.value)
    assert message.isprintable()
    return message


def config(value: Any) -> Config:
    return Config({"key": value}, "folder/config.json")


@pytest.mark.parametrize(("value", "number"), [(7, 7), (7.0, 7), (1, 1), (2**40, 2**40)])
def test_whole_numbers(value: Any, number: int) -> None:
    result = config(value).integer("key")
    assert (result, type(result)) == (number, int)


@pytest.mark.parametrize(
    ("value", "found"),
    [(None, "it is missing"), ("7", "found '7'"), (7.5, "found 7.5"), (True, "found True"),
     (False, "found False"), ([7], "found [7]"), ({}, "found {}"), (0, "found 0"), (-7, "found -7"),
     (2**40 + 1, "found 1099511627777"), (float("inf"), "found inf"), (1e300, "found 1e+300")],
)  # fmt: skip
def test_what_is_no_whole_number(value: Any, found: str) -> None:
    message = refusal(lambda: config(value).integer("key"))
    assert message.startswith("folder/config.json: key must be ")
    assert found in message


def test_zero_and_defaults() -> None:
    assert config(0).integer("key", minimum=0) == 0
    assert config(-1).integer("key", minimum=-1) == -1
    assert config(None).integer("key", 5) == 5
    assert Config({}, "config.json").integer("key", 5) == 5
    assert config(None).optional_integer("key") is None
    assert config(3).optional_integer("key") == 3
    assert "found 0" in refusal(lambda: config(0).optional_integer("key"))
    # A default is for an absent key, not for a wrong one.
    assert "found 'x'" in refusal(lambda: config("x").integer("key", 5))


@pytest.mark.parametrize("value", [0.5, 8, 1e17])
def test_ratios(value: Any) -> None:
    result = config(value).number("key")
    assert (result, type(result)) == (float(value), float)


@pytest.mark.parametrize(
    "value",
    [None, "8", True, [8.0], 0, -1.0, float("inf"), float("-inf"), float("nan"), 1e18, 10**4000],
)
def test_what_is_no_ratio(value: Any) -> None:
    assert "key must be a " in refusal(lambda: config(value).number("key"))


def test_ratios_have_defaults() -> None:
    assert config(None).number("key", 2.5) == 2.5


@pytest.mark.parametrize("value", [0, 1, "true", "false", [], 1.0])
def test_what_is_no_boolean(value: Any) -> None:
    assert "key must be true or false" in refusal(lambda: config(value).boolean("key", True))


def test_booleans() -> None:
    assert config(False).boolean("key", True) is False
    assert config(True).boolean("key", False) is True
    assert config(None).boolean("key", True) is True


@pytest.mark.parametrize("value", [0, True, ["a"], {"a": 1}, 1.5])
def test_what_is_no_string(value: Any) -> None:
    assert "key must be a string" in refusal(lambda: config(value).string("key"))


def test_strings() -> None:
    assert config("a").string("key") == "a"
    assert config(None).string("key", "b") == "b"
    assert "it is missing" in refusal(lambda: config(None).string("key"))


@pytest.mark.parametrize("value", ["a", {"a": 1}, [1], ["a", None], [["a"]], True])
def test_what_is_no_list_of_strings(value: Any) -> None:
    assert "key must be a list of strings" in refusal(lambda: config(value).strings("key"))


@pytest.mark.parametrize("value", [3, {"a": 1}, ["1"], [1, True], [1, None], [1.0], [-1], [2**41]])
def test_what_is_no_list_of_whole_numbers(value: Any) -> None:
    assert "key must be a list of whole numbers" in refusal(lambda: config(value).integers("key"))


def test_lists() -> None:
    assert config(["a", "b"]).strings("key") == ("a", "b")
    assert config(None).strings("key") == ()
    assert config([0, 5]).integers("key") == (0, 5)
    assert config(None).integers("key") == ()
    assert "at least 1" in refusal(lambda: config([0, 5]).integers("key", minimum=1))


@pytest.mark.parametrize("value", ["a", 3, [1], True, [{}]])
def test_what_is_no_section(value: Any) -> None:
    assert "key must be an object" in refusal(lambda: config(value).section("key"))


def test_a_sections_errors_name_the_whole_way_to_the_key() -> None:
    section = config({"inner": {"size": "big"}}).section("key")
    assert section is not None
    inner = section.section("inner")
    assert inner is not None
    message = refusal(lambda: inner.integer("size"))
    assert message == "folder/config.json: key: inner: size must be a whole number; found 'big'"


def test_layers_are_few_enough_to_be_built() -> None:
    for key in ("num_hidden_layers", "depth", "n_layer", "num_mtp_modules", "altup_num_inputs"):
        assert Config({key: 1000}, "config.json").integer(key) == 1000
        too_many = Config({key: 1001}, "config.json")
        assert "between 1 and 1000" in refusal(lambda bad=too_many, key=key: bad.integer(key))
    assert "num_hidden_layers" in refusal(lambda: card_of(llama(num_hidden_layers=2**40)))


def test_absent_and_null_are_the_same_but_can_be_told_apart() -> None:
    both = Config({"key": None}, "config.json")
    assert "key" not in both
    assert both.names("key")
    assert not both.names("other")


@pytest.mark.parametrize(
    ("values", "size"),
    [({"head_dim": 96}, 96), ({"head_dim": None}, 64), ({}, 64), ({"head_dim": 80.0}, 80)],
)
def test_head_size(values: dict[str, Any], size: int) -> None:
    shape = {"hidden_size": 512, "num_attention_heads": 8}
    assert Config(shape | values, "config.json").head_size == size


def test_heads_must_divide_the_hidden_size() -> None:
    shape = Config({"hidden_size": 100, "num_attention_heads": 8}, "config.json")
    message = refusal(lambda: shape.head_size)
    assert "num_attention_heads must be a divisor of hidden_size (100); found 8" in message


def test_kv_heads_default_to_all_heads() -> None:
    assert Config({"num_attention_heads": 8}, "c").num_kv_heads == 8
    assert Config({"num_attention_heads": 8, "num_key_value_heads": 2}, "c").num_kv_heads == 2


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_the_language_models_part(key: str) -> None:
    whole = Config({"hidden_size": 1, key: {"hidden_size": 2}}, "config.json")
    assert whole.text.integer("hidden_size") == 2
    assert whole.text.where == f"config.json: {key}"
    assert Config({"hidden_size": 1, key: None}, "config.json").text.integer("hidden_size") == 1
    assert f"{key} must be an object" in refusal(lambda: Config({key: "x"}, "config.json").text)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [({"torch_dtype": "bfloat16"}, "bfloat16"), ({"dtype": "float16"}, "float16"),
     ({"torch_dtype": "torch.float32"}, "float32"), ({"dtype": "half"}, "float16"),
     ({"torch_dtype": "float12"}, None), ({"torch_dtype": 16}, None), ({}, None)],
)  # fmt: skip
def test_dtypes(values: dict[str, Any], dtype: str | None) -> None:
    assert Config(values, "config.json").dtype == dtype


def test_a_dtype_nobody_knows_is_noted() -> None:
    card = card_of(llama(torch_dtype="float12"))
    assert card.dtype == "bfloat16"
    assert any("dtype" in note for note in card.notes)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size",
                                 "num_attention_heads", "intermediate_size"])  # fmt: skip
@pytest.mark.parametrize("value", ["8", True, [], {}, -8, 0, 1e400, 2**70, 8.5])
def test_wrong_dimensions_are_named(key: str, value: Any) -> None:
    message = refusal(lambda: card_of(llama(**{key: value})))
    assert message.startswith(f"config.json: {key} must be ")
    assert "found" in message


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size",
                                 "num_attention_heads", "intermediate_size"])  # fmt: skip
def test_missing_dimensions_are_named(key: str) -> None:
    message = refusal(lambda: card_of(llama(**{key: None})))
    assert message == f"config.json: {key} must be a whole number; it is missing"


def test_wrong_values_inside_a_text_config_are_named() -> None:
    text = llama(hidden_size="wide", layer_types=["full_attention"] * 2, **DELTA_NET)
    whole = {"architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": text}
    assert refusal(lambda: card_of(whole)) == (
        "config.json: text_config: hidden_size must be a whole number; found 'wide'"
    )


def test_an_empty_config_is_refused() -> None:
    with pytest.raises(UnsupportedModel) as caught:
        card_of({})
    assert str(caught.value).startswith("config.json: ")


def test_kv_heads_must_divide_the_heads() -> None:
    message = refusal(lambda: card_of(llama(num_key_value_heads=3)))
    assert message == "config.json: num_key_value_heads must be a divisor of 4, the heads; found 3"


def test_messages_never_break_the_line_or_reach_the_terminal() -> None:
    evil = "x\n\x1b]0;owned\x07\u202e"
    message = refusal(lambda: Config({evil: 1}, f"{evil}/config.json").string(evil))
    assert r"\n\x1b]0;owned\x07\u202e" in message
    assert str(CardError("a\rb")) == r"a\rb"
    assert str(CardError("Modèle déjà là")) == "Modèle déjà là"


def test_messages_stay_short_whatever_was_found() -> None:
    assert len(refusal(lambda: config("y" * 10**6).integer("key"))) < 200
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    assert len(refusal(lambda: config(nested).integer("key"))) < 200
