"""The bundled snapshot: its lines, and a card of every one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

from model_cards import CardError, UnsupportedModel
from model_cards.config import Config
from model_cards.quantization.presets import PRESETS
from model_cards.sources.bundled import (
    bundled_config,
    entries,
    find_entry,
    near_misses,
    open_bundled,
    variants_of,
)
from model_cards.sources.folding import fold, unfold


def lines() -> list[str]:
    path = resources.files("model_cards") / "data" / "catalogue.jsonl"
    return path.read_text("utf-8").splitlines()


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines()]


def test_every_line_is_a_row_that_begins_with_its_id() -> None:
    for line in lines():
        row = json.loads(line)
        assert line.startswith(f'{{"id":"{row["id"]}",')
        assert line.isascii()
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row["id"]), row["id"]


def test_no_model_is_there_twice() -> None:
    ids = [row["id"].lower() for row in rows()]
    assert len(ids) == len(set(ids))
    assert ids == sorted(ids)


def test_every_row_says_what_it_is_and_where_it_is_from() -> None:
    by_id = {row["id"]: row for row in rows()}
    for row in by_id.values():
        assert row["kind"] in {"target", "draft", "alias", "variant"}, row["id"]
        assert row["source"].strip(), row["id"]
        assert ("config" in row) == (row["kind"] in {"target", "draft"}), row["id"]
        assert ("of" in row) == (row["kind"] in {"alias", "variant"}), row["id"]
        assert ("preset" in row) == (row["kind"] == "variant"), row["id"]
        if "of" in row:
            assert row["of"] in by_id, f"{row['id']} stands on {row['of']}"
            assert row["of"] != row["id"]
        if "preset" in row:
            assert row["preset"] in PRESETS, row["id"]
        for key in ("parameters", "bytes", "length"):
            assert type(row.get(key, 1)) is int, row["id"]
            assert row.get(key, 1) > 0, row["id"]


def test_most_rows_name_a_licence() -> None:
    licences = [row.get("license") for row in rows()]
    assert all(name is None or (name == name.strip() and name.isprintable()) for name in licences)
    assert sum(name is not None for name in licences) >= 0.8 * len(licences)


def test_rows_hold_no_token() -> None:
    assert not [line for line in lines() if re.search(r"hf_[A-Za-z0-9]{30,}", line)]


def test_every_model_has_a_card_or_a_reason() -> None:
    """Who has none is a head whose kind of network is not modelled."""
    refused: dict[str, CardError] = {}
    exact = 0
    for entry in entries():
        try:
            card = open_bundled(entry.model_id)
        except CardError as error:
            refused[entry.model_id] = error
            continue
        assert card is not None
        assert card.model_id == entry.model_id
        assert card.origin.kind == "bundled"
        assert card.exact or card.notes, f"{entry.model_id} does not say what is estimated"
        assert card.parameters > 10**6, entry.model_id
        assert card.weight_bytes > 10**6, entry.model_id
        exact += card.exact
    for model_id, error in refused.items():
        entry = find_entry(model_id)
        assert entry is not None
        assert (entry.kind, type(error)) == ("draft", UnsupportedModel), f"{model_id}: {error}"
        assert str(error).startswith(f"{model_id}: config.json: ")
        assert "is not modelled and its size is not known" in str(error)
    assert len(refused) <= 5
    assert exact >= 565


@pytest.mark.parametrize(
    ("model_id", "parameters"),
    [
        # Totals as the makers' model pages state them, to the last element.
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("meta-llama/Llama-3.1-70B-Instruct", 70_553_706_496),
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("meta-llama/Llama-2-7b-hf", 6_738_415_616),
        ("mistralai/Mistral-7B-Instruct-v0.2", 7_241_732_096),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46_702_792_704),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("google/gemma-2-9b-it", 9_241_705_984),
        ("microsoft/phi-4", 14_659_507_200),
    ],
)
def test_well_known_totals(model_id: str, parameters: int) -> None:
    card = open_bundled(model_id)
    assert card is not None
    assert (card.parameters, card.exact) == (parameters, True)


def test_an_alias_is_its_model_under_another_name() -> None:
    aliases = [entry for entry in entries() if entry.kind == "alias"]
    assert len(aliases) >= 150
    for entry in aliases:
        assert entry.base is not None
        card, base = open_bundled(entry.model_id), open_bundled(entry.base)
        assert card is not None
        assert base is not None
        assert (card.layers, card.embedding, card.lm_head, card.final) == (
            base.layers, base.embedding, base.lm_head, base.final,
        ), entry.model_id  # fmt: skip
        assert card.exact == base.exact


def test_an_alias_can_have_a_length_of_its_own() -> None:
    """Yi-1.5 34B takes 4096 tokens, its 32K edition 32,768."""
    base, longer = open_bundled("01-ai/Yi-1.5-34B-Chat"), open_bundled("01-ai/Yi-1.5-34B-32K")
    assert base is not None
    assert longer is not None
    assert (base.max_model_len, longer.max_model_len) == (4096, 32768)


def test_a_variant_says_what_it_stands_on() -> None:
    variants = [entry for entry in entries() if entry.kind == "variant"]
    assert len(variants) >= 150
    for entry in variants:
        assert entry.base is not None
        card, base = open_bundled(entry.model_id), open_bundled(entry.base)
        assert card is not None
        assert base is not None
        assert not card.exact
        assert f"known by name and total only: {entry.base} with the usual layout" in card.notes[0]
        assert card.parameters == base.parameters, entry.model_id
        assert card.quantization is not None
        if base.quantization is None:
            assert card.weight_bytes < base.weight_bytes, entry.model_id
        assert entry.model_id in variants_of(entry.base.upper())


def test_ids_are_found_in_any_case() -> None:
    entry = find_entry("QWEN/qwen3-8b")
    assert entry is not None
    assert entry.model_id == "Qwen/Qwen3-8B"
    card = open_bundled("qwen/QWEN3-8B")
    assert card is not None
    assert card.model_id == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("model_id", ["", "Qwen", "Qwen3-8B", "Qwen/Qwen3-8B ", "qwen/qwen3_8b"])
def test_what_is_not_in_the_snapshot(model_id: str) -> None:
    assert find_entry(model_id) is None
    assert open_bundled(model_id) is None
    assert bundled_config(model_id) is None
    assert variants_of(model_id) == []


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("qwen/qwen3-8", "Qwen/Qwen3-8B"),
        ("Qwen3-8B", "Qwen/Qwen3-8B"),  # without its owner
        ("qwen3 8b", "Qwen/Qwen3-8B"),
        ("Alibaba/Qwen3-8B", "Qwen/Qwen3-8B"),  # another owner
        ("meta-llama/Llama-3.1-8B-Instrct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-Instruct-v0.2"),
    ],
)
def test_near_misses(typed: str, suggested: str) -> None:
    close = near_misses(typed)
    assert close[0] == suggested
    assert len(close) <= 3


def test_nothing_is_near_nonsense() -> None:
    assert near_misses("zzyzx/0000-xyzzy") == []


@pytest.mark.parametrize("typed", ["qwen3", "qwen3-8b-eagle3", "eagle3", "llama-3.1-8b"])
def test_drafts_are_not_suggested_as_models(typed: str) -> None:
    entries = [find_entry(model_id) for model_id in near_misses(typed, 10)]
    assert all(entry is not None and entry.kind != "draft" for entry in entries)
    assert near_misses("") == []
    assert len(near_misses("llama", count=2)) == 2


def test_folded_lists_are_written_out_losslessly() -> None:
    folded = 0
    for row in rows():
        for part in (row.get("config", {}), row.get("side", {}).get("quantization", {})):
            settings = part.get("quantization_config") or part
            for key in ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"):
                shorthand = settings.get(key)
                if isinstance(shorthand, list) and any("{" in path for path in shorthand):
                    folded += 1
                    written = unfold(shorthand)
                    assert len(written) == len(set(written)) > len(shorthand)
                    assert fold(written) == sorted(shorthand)
    assert folded >= 20


def test_a_configs_lists_come_unfolded() -> None:
    """All but tables of paths, which are kept as ranges."""
    for entry in entries():
        found = bundled_config(entry.model_id)
        assert found is not None
        for config in found:
            if config is not None:
                folded = [path for path in strings(config) if re.search(r"\{\d+-\d+\}", path)]
                assert not folded, entry.model_id


def strings(config: Config) -> Iterator[str]:
    """Every string of every list in a config."""
    values = [config.raw(key) for key in config]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, str))
