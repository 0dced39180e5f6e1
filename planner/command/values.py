"""Values of options as vLLM's parser reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HUMAN: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_AUTO: Final = -1


def convert(kind: str | None, text: str) -> Any:
    """A value of the type that the option's parser gives it.

    Raises `ValueError` with what is expected. Types that only vLLM itself checks stay text.
    """
    match kind:
        case "int":
            return _whole(text)
        case "float":
            return _number(text)
        case "human_readable_int":
            return human_readable(text)
        case "human_readable_int_or_auto":
            return _AUTO if text.lower() == "auto" else human_readable(text)
        case "json" | "from_json":
            return _json(text)
        case "bool":
            return _boolean(text)
        case "str":
            return text
    if text.lstrip()[:1] in ("{", "["):
        return _json(text)
    return text


def human_readable(text: str) -> int:
    """`32k` is 32,000 and `32K` 32,768, as vLLM counts; `25.6k` only in thousands."""
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return _whole(text)
    number, unit = match[1], match[2]
    if unit in _DECIMAL:
        return int(float(number) * _DECIMAL[unit])
    if "." in number:
        raise ValueError(f"a whole number before {unit}")
    return int(number) * _BINARY[unit]


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _boolean(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError("true or false")
    return known[text.lower()]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("JSON") from None


def as_json(value: Any) -> str:
    """A value as JSON in one line."""
    return json.dumps(value)


def nested(keys: list[str], value: Any) -> dict[str, Any]:
    """`a.b` and a value as `{"a": {"b": value}}`."""
    for key in reversed(keys[1:]):
        value = {key: value}
    return {keys[0]: value}


def merged(known: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """JSON objects in one, the second over the first, objects inside of them likewise."""
    found = dict(known)
    for key, value in part.items():
        inner = found.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        found[key] = merged(inner, value) if both and isinstance(inner, dict) else value
    return found
