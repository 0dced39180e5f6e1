"""Typed, checked reading of a config.json.

A config.json is free-form and comes from strangers, so nothing is taken as it is: every value is
asked for by name and type, and a wrong one raises `BadConfig` that names the key and what was
found. (Pydantic models of some forty families would do the same at ten times the import time.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from model_cards.dtypes import normalize_dtype
from model_cards.errors import BadConfig

MAX_CONFIG_BYTES: Final = 64 * 2**20
# Objects and lists of a JSON text: each takes a hundred times the bytes that spell it.
_MOST_CONTAINERS: Final = 2_000_000
_LARGEST: Final = 2**40  # no dimension of a network comes near; keeps arithmetic sane
_LARGEST_TOTAL: Final = 2**60  # bytes or elements of a checkpoint: a million of today's largest
_MOST_LAYERS: Final = 1000
# How keys end that count layers and what else is built one by one.
_LAYER_COUNTS: Final = (
    *("layers", "layer", "depth", "num_inputs", "mtp_modules"),
    *("num_heads", "n_predict"),  # of drafts: each is a head
)


def shorten(value: object, limit: int = 60) -> str:
    """`value` for an error message: printable, one line, bounded."""
    try:
        text = ascii(value)
    except RecursionError:  # nested almost as deep as the JSON parser allows
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def is_total(value: object) -> TypeGuard[int]:
    """Whether a value that was read can be the bytes or elements of a checkpoint, or of a part."""
    return type(value) is int and 0 <= value < _LARGEST_TOTAL


def parse_json_object(text: bytes | str, where: str) -> dict[str, Any]:
    """The JSON object in `text`; `BadConfig` naming `where` if it is none."""

    def refuse(constant: str) -> float:
        raise BadConfig(f"{where}: {constant} is not a number JSON knows")

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")  # as transformers reads it; json would guess
        if text.count("{") + text.count("[") > _MOST_CONTAINERS:
            raise BadConfig(f"{where} holds more than {_MOST_CONTAINERS:,} objects; not read")
        value = json.loads(text, parse_constant=refuse)
    except BadConfig:
        raise
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadConfig(f"{where} is not valid JSON ({shorten(reason, 90)})") from None
    if not isinstance(value, dict):
        raise BadConfig(f"{where} holds a {type(value).__name__}, not a JSON object")
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; `BadConfig` if it is unreadable, too large or malformed."""
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise BadConfig(f"{path.name} is larger than {MAX_CONFIG_BYTES >> 20} MiB; not read")
        return parse_json_object(path.read_bytes(), str(path))
    except OSError as error:
        raise BadConfig(f"Cannot read {path}: {error.strerror or error}") from None


class Config:
    """A JSON object read by key and type.

    `where` is the file's name as error messages show it. Absent and null keys are the same, as
    they are to transformers. `complete` is false for a config that was put together from
    published facts: there an absent key is unknown, not the model class's default.
    """

    def __init__(self, values: Mapping[str, Any], where: str, *, complete: bool = True) -> None:
        self._values = values
        self.where = where
        self.complete = complete

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def raw(self, key: str) -> Any:
        """The value as JSON gave it, None if absent."""
        return self._values.get(key)

    def fail(self, key: str, wanted: str) -> BadConfig:
        """The error for a value that is not what the network needs."""
        value = self._values.get(key)
        found = "it is missing" if value is None else f"found {shorten(value)}"
        return BadConfig(f"{self.where}: {key} must be {wanted}; {found}")

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1) -> int:
        """A whole number of at least `minimum`; `default` if absent, an error if that is None."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(key, "a whole number")
        largest = _MOST_LAYERS if key.endswith(_LAYER_COUNTS) else _LARGEST
        if not minimum <= value <= largest:
            raise self.fail(key, f"between {minimum} and {largest}")
        return value

    def optional_integer(self, key: str, *, minimum: int = 1) -> int | None:
        """Like `integer`, None if absent."""
        return self.integer(key, minimum=minimum) if key in self else None

    def optional_total(self, key: str) -> int | None:
        """A total of a checkpoint, which may be larger than any dimension; None if absent."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_total(value):
            raise self.fail(key, "a whole number that a checkpoint can come to")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above zero (each is a ratio); `default` if absent."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(key, "a number")
        if not 0 < value < 1e18:
            raise self.fail(key, "a finite number above zero")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        """A true/false value."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def string(self, key: str, default: str | None = None) -> str:
        """A string; `default` if absent."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.fail(key, "a string")
        return value

    def state_dtype(self, key: str, default: str = "auto") -> str | None:
        """A dtype by its name; None for "auto", the model's own."""
        name = self.string(key, default)
        if name in ("", "auto"):
            return None
        dtype = normalize_dtype(name)
        if dtype is None:
            raise self.fail(key, "a dtype")
        return dtype

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty if absent."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not set(map(type, value)) <= {str}:
            raise self.fail(key, "a list of strings")
        return tuple(value)

    def integers(self, key: str, *, minimum: int = 0) -> tuple[int, ...]:
        """A list of whole numbers, empty if absent."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and minimum <= item <= _LARGEST
            for item in value
        ):
            raise self.fail(key, f"a list of whole numbers of at least {minimum}")
        return tuple(value)

    def section(self, key: str) -> Config | None:
        """A nested object, None if absent."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fail(key, "an object")
        return Config(value, f"{self.where}: {key}", complete=self.complete)

    def sections(self, key: str) -> tuple[Config, ...]:
        """A list of objects, empty if absent."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(key, "a list of objects")
        return tuple(
            Config(item, f"{self.where}: {key}[{index}]", complete=self.complete)
            for index, item in enumerate(value)
        )

    def names(self, key: str) -> bool:
        """Whether the file has the key at all, even as null."""
        return key in self._values

    def merged(self, other: Mapping[str, Any]) -> Config:
        """This object with `other`'s keys over it."""
        return Config({**self._values, **other}, self.where, complete=self.complete)

    # What every decoder's config has, under its several spellings.

    @property
    def text(self) -> Config:
        """The language model's part of a multimodal config, else the config itself."""
        for key in ("text_config", "llm_config", "language_config"):
            section = self.section(key)
            if section is not None:
                return section
        return self

    @property
    def architectures(self) -> tuple[str, ...]:
        """Names of the model classes, usually one."""
        return self.strings("architectures")

    @property
    def model_type(self) -> str:
        """The `model_type`, empty if absent."""
        return self.string("model_type", "")

    @property
    def dtype(self) -> str | None:
        """Dtype of the weights, None where the file does not say or says something unknown."""
        for key in ("torch_dtype", "dtype"):
            value = self._values.get(key)
            if isinstance(value, str):
                return normalize_dtype(value)
        return None

    @property
    def rope_parameters(self) -> Config:
        """RoPE settings: `rope_parameters` (transformers 5) or the older `rope_scaling`."""
        for key in ("rope_parameters", "rope_scaling"):
            section = self.section(key)
            if section is not None:
                return section
        return Config({}, f"{self.where}: rope_parameters")

    @property
    def num_layers(self) -> int:
        """`num_hidden_layers`."""
        return self.integer("num_hidden_layers")

    @property
    def head_size(self) -> int:
        """Size of an attention head: `head_dim`, else hidden size over heads."""
        explicit = self.optional_integer("head_dim")
        if explicit is not None:
            return explicit
        heads, hidden = self.integer("num_attention_heads"), self.integer("hidden_size")
        if hidden % heads:
            raise self.fail("num_attention_heads", f"a divisor of hidden_size ({hidden})")
        return hidden // heads

    @property
    def num_kv_heads(self) -> int:
        """`num_key_value_heads`, else the number of attention heads."""
        return self.integer("num_key_value_heads", self.integer("num_attention_heads"))
