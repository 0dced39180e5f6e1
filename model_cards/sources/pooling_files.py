"""The files beside a config.json that say how a model is pooled, as vLLM reads them.

Sentence Transformers' modules.json and what it names, its limit of tokens, and the tokenizer's
(vLLM's transformers_utils/config.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from model_cards.config import MAX_CONFIG_BYTES, Config, read_json_object
from model_cards.errors import BadConfig
from model_cards.pooling import PoolingFiles, Projection

_MODULES: Final = "modules.json"
_POOLING_TYPES: Final = frozenset(
    {
        "sentence_transformers.models.Pooling",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    }
)
_DENSE_TYPES: Final = frozenset(
    {
        "sentence_transformers.models.Dense",
        "sentence_transformers.base.modules.dense.Dense",
        "pylate.models.Dense.Dense",
    }
)
_LIMITS: Final = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_FOLDER: Final = re.compile(r"\w[\w.-]*", re.ASCII)  # one inside the repository
_LONGEST: Final = 2**31  # a tokenizer without a limit states a number beyond all reason


def read_pooling_files(config: Config, find: Callable[[str], Path | None]) -> PoolingFiles | None:
    """What they say; None if there are none.

    `find` gives the place of a file of the repository, None if it has no such file.
    """
    modules = find(_MODULES)
    listed = [] if modules is None else _read_list(modules)
    kind = _pooling_layer(listed, find)
    max_seq_length = _first_limit(find)
    model_max_length = None
    if config.string("position_embedding_type", "") == "absolute":
        model_max_length = _limit(find("tokenizer_config.json"), "model_max_length")
    if kind is None and max_seq_length is None and model_max_length is None:
        return None
    return PoolingFiles(
        kind is not None,
        kind or None,
        max_seq_length,
        model_max_length,
        tuple(map(_projection, _settings(listed, _DENSE_TYPES, find))),
    )


def _pooling_layer(modules: list[Any], find: Callable[[str], Path | None]) -> str | None:
    """The kind of pooling that modules.json names, empty if it is not known, None without it."""
    named = any(_type(module) in _POOLING_TYPES for module in modules)
    settings = next(_settings(modules, _POOLING_TYPES, find), None)
    if settings is None:
        return "" if named else None
    return _kind(settings)


def _settings(
    modules: list[Any], types: frozenset[str], find: Callable[[str], Path | None]
) -> Iterator[Config]:
    """The settings of the modules of these types, as far as they are in the repository."""
    for module in modules:
        folder = module.get("path") if _type(module) in types else None
        if isinstance(folder, str) and _FOLDER.fullmatch(folder):
            path = find(f"{folder}/config.json")
            if path is not None:
                yield Config(read_json_object(path), str(path))


def _type(module: Any) -> str:
    kind = module.get("type") if isinstance(module, dict) else None
    return kind if isinstance(kind, str) else ""


def _projection(settings: Config) -> Projection:
    return Projection(
        settings.integer("in_features"),
        settings.integer("out_features"),
        settings.boolean("bias", True),
    )


def _kind(settings: Config) -> str:
    """vLLM's name of it: the last switch that is on counts."""
    found = ""
    for key in settings:
        value = settings.raw(key)
        name = value if key == "pooling_mode" and isinstance(value, str) else key
        if value is not True and name is key:
            continue
        name = name.removeprefix("pooling_mode_").partition("_")[0]
        name = "LAST" if "lasttoken" in name else name.upper()
        if name in ("CLS", "LAST", "MEAN"):
            found = name
    return found


def _first_limit(find: Callable[[str], Path | None]) -> int | None:
    for name in _LIMITS:
        path = find(name)
        if path is not None:
            return _limit(path, "max_seq_length")
    return None


def _limit(path: Path | None, key: str) -> int | None:
    if path is None:
        return None
    value = read_json_object(path).get(key)
    return value if isinstance(value, int) and 0 < value < _LONGEST else None


def _read_list(path: Path) -> list[Any]:
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise BadConfig(f"{path.name} is larger than {MAX_CONFIG_BYTES >> 20} MiB; not read")
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise BadConfig(f"{path} is not valid JSON") from None
    if not isinstance(value, list):
        raise BadConfig(f"{path} holds a {type(value).__name__}, not a JSON list")
    return value
