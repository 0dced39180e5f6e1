"""The bundled snapshot: configs that work with no network (made by tools/build_cards.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.json import decode

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.pooling import PoolingFiles, Projection
from model_cards.quantization.presets import usual_settings
from model_cards.sources.folding import unfold

_DATA: Final = Path(__file__).parent.parent / "data"
_LISTS: Final = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude_modules",
    "targets",
)
_ID: Final = '{"id":"'


class Entry(Struct, frozen=True):
    """One model of the snapshot, before its card is built."""

    model_id: str
    kind: str  # "target", "draft", "alias", "variant"
    base: str | None  # what an alias or a variant is described by
    preset: str | None  # a variant's format
    parameters: int | None  # as the repository's headers give them
    license: str | None
    source: str
    reconstructed: bool
    corrected: bool  # a reconstructed config that its published total put right
    quantized: bool
    quant_method: str | None  # as a config of its own says
    expert_dtype: str | None = None  # as that config says, where experts are stored otherwise


@cache
def _lines() -> dict[str, str]:
    """Every line by the lower-case id it begins with; parsed only when asked for."""
    text = (_DATA / "catalogue.jsonl").read_text("utf-8")
    start = len(_ID)
    return {line[start : line.index('"', start)].lower(): line for line in text.splitlines()}


@cache
def _row(model_id: str) -> dict[str, Any] | None:
    line = _lines().get(model_id.lower())
    return None if line is None else json.loads(line)  # configs hold Infinity


@cache
def snapshot_date() -> date:
    """The day on which the snapshot was put together."""
    return date.fromisoformat((_DATA / "catalogue.date").read_text("ascii").strip())


def entries() -> Iterator[Entry]:
    """Every model of the snapshot, by id."""
    for key in _lines():
        entry = find_entry(key)
        assert entry is not None
        yield entry


@cache
def find_entry(model_id: str) -> Entry | None:
    """The entry of a model id (in any case), None if it is not in the snapshot."""
    row = _row(model_id)
    if row is None:
        return None
    config = row.get("config", {})
    nested = config.get("text_config") or {}
    settings = config.get("quantization_config") or nested.get("quantization_config") or {}
    quantized = bool("preset" in row or "side" in row or settings)
    method = settings.get("quant_method")
    experts = config.get("expert_dtype", settings.get("expert_dtype"))
    if row["kind"] == "alias":
        base = find_entry(row["of"])
        quantized = base is not None and base.quantized
        method = base.quant_method if base is not None else None
        experts = base.expert_dtype if base is not None else None
    return Entry(
        row["id"],
        row["kind"],
        row.get("of"),
        row.get("preset"),
        row.get("parameters"),
        row.get("license"),
        row["source"],
        bool(row.get("reconstructed")),
        bool(row.get("corrected")),
        quantized,
        method,
        experts,
    )


def variants_of(model_id: str) -> list[str]:
    """Ids of the quantized repositories that are described by this base model."""
    return _variants().get(model_id.lower(), [])


class _Copy(Struct, frozen=True):
    """A quantized repository and the model that it is a copy of."""

    id: str
    of: str


@cache
def _variants() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _lines().values():
        if '"kind":"variant"' in line:
            row = decode(line, type=_Copy)
            found.setdefault(row.of.lower(), []).append(row.id)
    return found


def near_misses(model_id: str, count: int = 3) -> list[str]:
    """Ids of the snapshot's models, drafts apart, that look like `model_id`."""
    from difflib import get_close_matches  # slow to import, needed for errors only

    wanted = model_id.lower()
    known = [key for key, line in _lines().items() if '"kind":"draft"' not in line]
    name = wanted.rpartition("/")[2]
    by_name = [key for key in known if key.rpartition("/")[2] == name]
    close = by_name or get_close_matches(wanted, known, n=count, cutoff=0.6)
    if not close and len(name) >= 4:
        close = [key for key in known if name in key]
    return [entry.model_id for key in close[:count] if (entry := find_entry(key)) is not None]


@cache
def open_bundled(model_id: str) -> ModelCard | None:
    """The card of a bundled model, None if there is none of that name."""
    row = _row(model_id)
    if row is None:
        return None
    config, side = _config(row)
    assumed = None
    if row["kind"] == "variant":
        assumed = (
            f"known by name and total only: {row['of']} with the usual layout of "
            f"{row['preset']} checkpoints stands in"
        )
    elif side is not None and not side.complete:
        assumed = (
            "the copy of hf_quant_config.json does not say what stays unquantized; every linear "
            "layer is taken as quantized"
        )
    base = _ancestry(row)[-1]
    facts = Facts(
        parameters=base.get("parameters"),
        checkpoint_bytes=row.get("bytes"),
        license=row.get("license") or base.get("license"),
        side_file=side,
        assumed=assumed,
        draft_method=row.get("method"),
        pooling=bundled_pooling(row["id"]),
    )
    origin = Origin("bundled", row["source"], reconstructed=bool(base.get("reconstructed")))
    return build_card(row["id"], config, origin, facts)


def bundled_config(model_id: str) -> tuple[Config, Config | None] | None:
    """config.json and hf_quant_config.json of a bundled model, as far as they are kept."""
    row = _row(model_id)
    return None if row is None else _config(row)


def bundled_pooling(model_id: str) -> PoolingFiles | None:
    """What the files beside the config of a bundled model say of pooling."""
    row = _row(model_id)
    given = row.get("pooling") if row is not None else None
    if given is None:
        return None
    layers = tuple(Projection(*layer) for layer in given.get("projections", ()))
    return PoolingFiles("method" in given, **{**given, "projections": layers})


def _ancestry(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The row and those it stands on; the last one holds the config."""
    rows = [row]
    while "of" in rows[-1]:
        base = _row(rows[-1]["of"])
        assert base is not None, f"{row['id']} stands on {rows[-1]['of']}, which is not bundled"
        rows.append(base)
    return rows


def _config(row: dict[str, Any]) -> tuple[Config, Config | None]:
    *above, base = _ancestry(row)
    values = unfold_lists(base["config"])
    length = next((each["length"] for each in above if "length" in each), None)
    if length is not None:
        values = {**values, "max_position_embeddings": length}
    if row["kind"] == "variant":
        values = {**values, "quantization_config": usual_settings(row["preset"], values)}
    complete = not base.get("reconstructed")
    side = base.get("side")
    side_config = None
    if side is not None and row["kind"] != "variant":
        where = f"{row['id']}: hf_quant_config.json"
        # Without its producer it is an excerpt: what stays unquantized is missing too.
        side_config = Config(unfold_lists(side), where, complete="producer" in side)
    return Config(values, f"{row['id']}: config.json", complete=complete), side_config


def unfold_lists(values: dict[str, Any]) -> dict[str, Any]:
    """A copy of a config with its folded module lists written out."""
    copy: dict[str, Any] = {}
    for key, value in values.items():
        if key in _LISTS and isinstance(value, list):
            copy[key] = unfold(value)
        elif isinstance(value, dict):
            copy[key] = unfold_lists(value)
        else:
            copy[key] = value
    return copy
