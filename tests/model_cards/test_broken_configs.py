"""Whatever stands in a config.json: a card, or one line about what is wrong; never a traceback.

Bundled configs, one of each architecture and quantization, with some values replaced or taken
out. Seeded, so that a failure repeats: its message gives the model and the changes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from model_cards.build import build_card
from model_cards.caches import Attention
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.errors import CardError
from model_cards.facts import Facts
from model_cards.sources.bundled import bundled_config, entries

SEEDS = range(20)
CHANGED_PER_SEED = 50

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
        model_id, config, side = copy.deepcopy(rng.choice(ORIGINALS))
        changes = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            changed = side if side is not None and rng.random() < 0.3 else config
            changes.append(change(changed, rng))
        where = f"{model_id}: {'; '.join(changes)}"
        facts = Facts(
            parameters=rng.choice((None, 8 * 10**9)),
            side_file=Config(side, "hf_quant_config.json") if side is not None else None,
        )
        origin = Origin("folder", ".")
        try:
            look_at(build_card(model_id, Config(config, "config.json"), origin, facts))
        except CardError as error:
            if not str(error).isprintable():
                pytest.fail(f"{where}: {error!r}")
        except Exception as error:
            pytest.fail(f"{where}: {type(error).__name__}: {error}")


def test_the_originals_cover_what_is_modelled() -> None:
    assert len(ORIGINALS) >= 60
    methods = {
        (values.get("quantization_config") or {}).get("quant_method") for _, values, _ in ORIGINALS
    }
    assert methods >= {None, "fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4"}
    assert any(side is not None for _, _, side in ORIGINALS)
