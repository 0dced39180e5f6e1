"""A checkpoint's description as a small JSON file: its config and what its other files tell.

Two places hold such files: the user's own catalogue (`vplan models add`), and the cache, where
what the Hub told of weight files is kept, since huggingface_hub keeps the config alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from math import prod
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, to_builtins

from model_cards.build import build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config, read_json_object
from model_cards.errors import BadConfig, CardError
from model_cards.facts import Facts
from model_cards.generation import Generation
from model_cards.inventory import MOST_TENSORS, Inventory, StoredTensor, stored_tensor
from model_cards.pooling import PoolingFiles, Projection
from model_cards.sources.folding import RANGE, fold, unfold

_FORMAT: Final = 1


class Kept(Struct, frozen=True):
    """One description: what vLLM serves it by, where it is from, and what it says."""

    model_id: str  # a Hub id, or a folder
    origin: Origin
    fetched: date
    config: Config
    facts: Facts

    @classmethod
    def of(cls, card: ModelCard) -> Kept:
        """What a card was built from, as of today."""
        assert card.built_from is not None
        return cls(card.model_id, card.origin, date.today(), *card.built_from)

    def says_the_same(self, other: Kept) -> bool:
        """Whether nothing that a plan could depend on differs."""
        mine, theirs = _written(self), _written(other)
        return all(
            mine.get(key) == theirs.get(key)
            for key in mine.keys() | theirs.keys()
            if key not in ("fetched", "origin")
        )

    def card(self, kind: str | None = None) -> ModelCard:
        """The card; `kind` is what to call its origin, the source it was read from if None."""
        origin = self.origin
        if kind is not None:
            origin = Origin(
                kind,
                f"{self.origin.detail}, kept on {self.fetched.isoformat()}",
                reconstructed=self.origin.reconstructed,
                revision=self.origin.revision,
            )
        return build_card(self.model_id, self.config, origin, self.facts)


def save(path: Path, kept: Kept) -> None:
    """Write a description in one step, over what was there. Raises `OSError`."""
    from tempfile import NamedTemporaryFile

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = None
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".", suffix=".part", delete=False
        ) as stream:
            partial = Path(stream.name)
            stream.write(json.dumps(_written(kept), separators=(",", ":")) + "\n")
        os.replace(partial, path)
    except OSError as error:
        if error.filename is None:  # of what is written
            error.filename = str(path)
        raise
    finally:
        if partial is not None:
            with suppress(OSError):
                partial.unlink()


class NewerFormat(CardError):
    """A description that a later vplan wrote."""


def load(path: Path) -> Kept:
    """Read a description; `BadConfig` for a file that is none, `NewerFormat` for a later one."""
    row = Config(read_json_object(path), path.name)
    if row.integer("format") > _FORMAT:
        raise NewerFormat(f"{path} was written by a newer vplan; this one leaves it alone")
    if row.integer("format") != _FORMAT:
        raise row.fail("format", str(_FORMAT))
    config, source = row.section("config"), row.section("origin")
    if config is None or source is None:
        raise row.fail("config" if config is None else "origin", "an object")
    model_id = row.string("id")
    complete = row.boolean("complete", True)
    values = {key: config.raw(key) for key in config}
    origin = Origin(
        source.string("kind"),
        source.string("detail"),
        reconstructed=source.boolean("reconstructed", False),
        revision=source.string("revision", "") or None,
    )
    try:
        fetched = date.fromisoformat(row.string("fetched"))
    except ValueError:
        raise row.fail("fetched", "a date") from None
    where = f"{model_id}: config.json"
    return Kept(model_id, origin, fetched, Config(values, where, complete=complete), _facts(row))


def _written(kept: Kept) -> dict[str, Any]:
    facts = kept.facts
    row: dict[str, Any] = {
        "format": _FORMAT,
        "id": kept.model_id,
        "fetched": kept.fetched.isoformat(),
        "origin": to_builtins(kept.origin),
        "complete": kept.config.complete,
        "config": _values(kept.config),
        "parameters": facts.parameters,
        "bytes": facts.checkpoint_bytes,
        "license": facts.license,
        "assumed": facts.assumed,
        "draft_method": facts.draft_method,
        "max_new_tokens": facts.generation.max_new_tokens,
        "min_p": facts.generation.min_p,
    }
    if facts.side_file is not None:
        row["side"] = _values(facts.side_file)
        row["side_complete"] = facts.side_file.complete
    if facts.pooling is not None:
        row["pooling"] = to_builtins(facts.pooling)
    inventory = facts.inventory
    if inventory is not None and not any("{" in name for name in inventory.tensors):
        row["tensors"] = _folded(inventory.tensors)
        row["head_is_copy"] = inventory.head_is_copy
    return {key: value for key, value in row.items() if value is not None}


def _values(config: Config) -> dict[str, Any]:
    return {key: config.raw(key) for key in config}


def _folded(tensors: Mapping[str, StoredTensor]) -> list[list[Any]]:
    """Tensors of one dtype and shape together, their names as shorthand."""
    same: dict[StoredTensor, list[str]] = {}
    for name, tensor in tensors.items():
        same.setdefault(tensor, []).append(name)
    return [[t.dtype, list(t.shape), fold(names)] for t, names in same.items()]


def _facts(row: Config) -> Facts:
    side = row.section("side")
    if side is not None:
        where = f"{row.string('id')}: hf_quant_config.json"
        side = Config(_values(side), where, complete=row.boolean("side_complete", True))
    return Facts(
        parameters=row.optional_total("parameters"),
        checkpoint_bytes=row.optional_total("bytes"),
        license=row.string("license", "") or None,
        side_file=side,
        assumed=row.string("assumed", "") or None,
        draft_method=row.string("draft_method", "") or None,
        inventory=_inventory(row),
        pooling=_pooling(row),
        generation=Generation(row.optional_integer("max_new_tokens"), _share(row, "min_p")),
    )


def _share(row: Config, key: str) -> float | None:
    value = row.raw(key)
    if value is not None and not (isinstance(value, float) and 0 < value <= 1):
        raise row.fail(key, "a number up to 1")
    return value


def _pooling(row: Config) -> PoolingFiles | None:
    section = row.section("pooling")
    if section is None:
        return None
    values = {name: section.raw(name) for name in PoolingFiles.__struct_fields__}
    projections = tuple(
        Projection(each.integer("inputs"), each.integer("outputs"), each.boolean("bias", True))
        for each in section.sections("projections")
    )
    return PoolingFiles(
        section.boolean("modules", False),
        section.string("method") if values["method"] is not None else None,
        section.optional_integer("max_seq_length"),
        section.optional_integer("model_max_length"),
        projections,
    )


def _inventory(row: Config) -> Inventory | None:
    groups = row.raw("tensors")
    if groups is None:
        return None
    tensors: dict[str, StoredTensor] = {}
    try:
        if sum(_count(names) for _, _, names in groups) > MOST_TENSORS:
            raise row.fail("tensors", f"at most {MOST_TENSORS:,} tensors")
        for dtype, shape, names in groups:
            tensor = stored_tensor(dtype, shape)
            if tensor is None:
                raise row.fail("tensors", "a list of dtype, shape and names")
            tensors |= dict.fromkeys(unfold(names), tensor)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadConfig):
            raise
        raise row.fail("tensors", "a list of dtype, shape and names") from None
    copied = row.raw("head_is_copy")
    return Inventory(tensors, copied if isinstance(copied, bool) else None)


def _count(names: Iterable[str]) -> int:
    """How many names a shorthand stands for; none is written out to be counted."""
    return sum(
        prod(max(0, int(last) - int(first) + 1) for first, last in RANGE.findall(name))
        for name in names
    )
