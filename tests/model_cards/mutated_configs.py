"""Bundled configs, one of each architecture and quantization, some values replaced or taken out.

Seeded, so that a failure repeats: `what` gives the model and the changes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.sources.bundled import bundled_config, entries

# Of each type what arithmetic, containers and regular expressions trip over.
STRANGE: dict[type, list[Any]] = {
    bool: [True, False],
    int: [0, -1, 1, 2, 3, 7, 33, 64, 4096, 2**31, 2**40, 2**40 + 1, 2**63, -(2**63), 10**400],
    float: [0.0, -0.0, 0.5, -3.5, 1e-9, 4096.0, 1e17, 1e308, float("inf"), float("-inf")],
    str: ["", "x", "4", "bfloat16", "NVFP4", "yarn", "longrope", "\x1b[2J", "re:(", "-:(", "*"],
    list: [[], [0], [3], [None], ["x"], [[]], [True], [2**40, 2**40], ["re:("],
           ["re:" + "(" * 3000], ["re:a{99999999999}"], ["re:.*"],
           ["full_attention"], ["sliding_attention"] * 3],
    dict: [{}, {"x": 1}, {"x": {}}, {"x": None}, {"-:(": {}}, {"-:a{99999999999}": {}},
           {"+:.*": {}}, {"rope_type": "yarn"}, {"factor": -2.0}],
    type(None): [None],
}  # fmt: skip


def originals() -> list[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """One bundled model of each architecture and quantization, modelled or not."""
    seen: set[tuple[object, ...]] = set()
    chosen = []
    for entry in entries():
        if entry.kind not in ("target", "draft"):
            continue
        found = bundled_config(entry.model_id)
        assert found is not None
        config, side = found
        values = {key: config.raw(key) for key in config}
        quantization = values.get("quantization_config") or {}
        kind = (*values.get("architectures", ()), quantization.get("quant_method"), side is None)
        if kind not in seen:
            seen.add(kind)
            extra = {key: side.raw(key) for key in side} if side is not None else None
            chosen.append((entry.model_id, values, extra))
    return chosen


ORIGINALS = originals()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a JSON document are; of a long list the first few."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(min(len(value), 3)))
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def change(document: dict[str, Any], rng: random.Random) -> str:
    """Take one value of a document out or put something strange in its place; says what."""
    paths = [path for path in places(document) if path[0] != "architectures" or rng.random() < 0.1]
    if not paths:
        return "nothing left to change"
    path = rng.choice(paths)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    if isinstance(parent, dict) and rng.random() < 0.2:
        del parent[path[-1]]
        return f"{path} deleted"
    same_type = STRANGE[type(parent[path[-1]])]
    anything = STRANGE[rng.choice(list(STRANGE))]
    value = rng.choice(same_type if rng.random() < 0.7 else anything)
    parent[path[-1]] = copy.deepcopy(value)
    return f"{path} = {value!r:.60}"


class Changed(Struct, frozen=True):
    """A changed checkpoint: its files, and what is wrong with them."""

    model_id: str
    config: dict[str, Any]
    side: dict[str, Any] | None
    parameters: int | None
    what: str

    def card(self) -> ModelCard:
        """Raises `CardError` for what vplan cannot read."""
        side = Config(self.side, "hf_quant_config.json") if self.side is not None else None
        facts = Facts(parameters=self.parameters, side_file=side)
        origin = Origin("folder", ".")
        return build_card(self.model_id, Config(self.config, "config.json"), origin, facts)


def changed(rng: random.Random) -> Changed:
    """One of the originals with one to three changes."""
    model_id, config, side = copy.deepcopy(rng.choice(ORIGINALS))
    changes = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = side if side is not None and rng.random() < 0.3 else config
        changes.append(change(document, rng))
    parameters = rng.choice((None, 8 * 10**9))
    return Changed(model_id, config, side, parameters, f"{model_id}: {'; '.join(changes)}")
