"""Headers of weight files on the Hub: how many requests they take, and what stands in for them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from checkpoint_files import header, llama_tensors
from fake_hub import Answer, FakeHub, Repo
from huggingface_hub import HfApi
from tiny_models import LLAMA, LLAMA_PARAMETERS, llama

from model_cards import open_card
from model_cards.card import ModelCard

LONG = llama(num_hidden_layers=16)  # 147 tensors
# 14 more layers of q, o 8 x 8, k, v 8 x 4, three 8 x 16 and two norms of 8 than LLAMA's 2.
LONG_PARAMETERS = LLAMA_PARAMETERS + 14 * (2 * 64 + 2 * 32 + 3 * 128 + 2 * 8)

INDEX = "model.safetensors.index.json"


def shards(count: int, config: dict[str, Any] = LLAMA) -> dict[str, Any]:
    """A repository's weight files: the tensors of a Llama dealt out to so many shards."""
    tensors = llama_tensors(config)
    names = [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
    dealt = {name: list(tensors)[index::count] for index, name in enumerate(names)}
    files: dict[str, Any] = {
        name: header({tensor: tensors[tensor] for tensor in held}) for name, held in dealt.items()
    }
    files[INDEX] = {
        "metadata": {"total_size": 2 * LLAMA_PARAMETERS},
        "weight_map": {tensor: name for name, held in dealt.items() for tensor in held},
    }
    return files


def put(
    hub: FakeHub,
    files: dict[str, Any],
    model_id: str = "org/tiny",
    config: dict[str, Any] = LLAMA,
) -> None:
    """A repository whose description counts something else than its headers do."""
    hub.repos[model_id] = Repo({"config.json": config, **files}, {"BF16": 12345})


def asked(hub: FakeHub) -> list[str]:
    return [request.path for request in hub.requests if "safetensors" in request.path]


def from_headers(card: ModelCard) -> bool:
    """Whether the headers were read: else the totals of the description stand."""
    assert card.checkpoint_bytes in (2 * card.parameters, 2 * 12345)
    return card.checkpoint_bytes != 2 * 12345


def test_one_file_is_one_request(hub: FakeHub) -> None:
    put(hub, {"model.safetensors": header(llama_tensors(LLAMA))})
    card = open_card("org/tiny")
    assert from_headers(card)
    assert (card.exact, card.notes) == (True, ())
    assert asked(hub) == ["/org/tiny/resolve/main/model.safetensors"]


def test_a_long_header_is_asked_for_again(hub: FakeHub) -> None:
    """100 kB are taken at first."""
    tensors = {f"vision_tower.{i:0>200}.weight": ("BF16", [0]) for i in range(400)}
    put(hub, {"model.safetensors": header(llama_tensors(LLAMA) | tensors)})
    assert from_headers(open_card("org/tiny"))
    assert len(asked(hub)) == 2


def test_weights_are_never_fetched_whatever_a_mirror_sends(hub: FakeHub) -> None:
    """One that knows no ranges sends the file from its beginning to its end."""
    hub.knows_ranges = False
    put(hub, {"model.safetensors": header(llama_tensors(LLAMA))})
    weights = bytes(64 << 20)
    hub.answers[".safetensors"] = Answer(200, header(llama_tensors(LLAMA)) + weights)
    assert from_headers(open_card("org/tiny"))
    assert hub.cut_off.get(timeout=10) == "/org/tiny/resolve/main/model.safetensors"
    tensors = {f"vision_tower.{i:0>200}.weight": ("BF16", [0]) for i in range(400)}
    hub.answers[".safetensors"] = Answer(200, header(llama_tensors(LLAMA) | tensors) + weights)
    put(hub, {"model.safetensors": b""}, "org/long")
    assert not from_headers(open_card("org/long"))
    assert {hub.cut_off.get(timeout=10) for _ in range(2)} == {asked(hub)[-1]}


@pytest.mark.skipif(
    not hasattr(HfApi, "get_sharded_safetensors_metadata"), reason="an older client asks for each"
)
@pytest.mark.parametrize("count", [2, 20, 140])
def test_any_number_of_shards_is_one_request(hub: FakeHub, count: int) -> None:
    put(hub, shards(count, LONG), config=LONG)
    card = open_card("org/tiny")
    assert (from_headers(card), card.exact, card.notes) == (True, True, ())
    assert card.parameters == LONG_PARAMETERS
    assert asked(hub) == [f"/api/models/org/tiny/safetensors-metadata/{INDEX}"]


def test_other_endpoints_are_asked_shard_by_shard(hub: FakeHub) -> None:
    hub.gives_headers = False
    put(hub, shards(20))
    assert from_headers(open_card("org/tiny"))
    assert len([path for path in asked(hub) if "/resolve/" in path]) == 20
    # Not for very many of them.
    hub.requests.clear()
    put(hub, shards(140, LONG), "org/many", LONG)
    assert not from_headers(open_card("org/many"))
    assert not any("/resolve/main/model-" in path for path in asked(hub))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_more_tensors_than_are_counted_go_by_the_totals(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, count: int, together: bool
) -> None:
    hub.gives_headers = together
    whole = {"model.safetensors": header(llama_tensors(LLAMA))}
    put(hub, whole if count == 1 else shards(count))
    put(hub, whole if count == 1 else shards(count), "org/again")
    stored = len(llama_tensors(LLAMA))
    monkeypatch.setattr("model_cards.sources.hub_headers.MOST_TENSORS", stored)
    assert from_headers(open_card("org/tiny"))
    monkeypatch.setattr("model_cards.sources.hub_headers.MOST_TENSORS", stored - 1)
    assert not from_headers(open_card("org/again"))


def test_a_revision_is_asked_shard_by_shard(hub: FakeHub) -> None:
    put(hub, {"model.safetensors": b""})
    hub.repos["org/tiny"].tags = {"v2": {"config.json": LLAMA, **shards(3)}}
    assert from_headers(open_card("org/tiny", revision="v2"))
    assert all("/resolve/v2/" in path for path in asked(hub))


def test_headers_that_differ_from_the_config_are_told(hub: FakeHub) -> None:
    put(hub, {"model.safetensors": header(llama_tensors(llama(tie_word_embeddings=True)))})
    assert any("hold no output head" in note for note in open_card("org/tiny").notes)


@pytest.mark.parametrize("files", [{"model.safetensors": header(llama_tensors(LLAMA))}, shards(3)])
def test_what_headers_told_is_kept_beside_the_cached_config(
    hub: FakeHub, files: dict[str, Any]
) -> None:
    """huggingface_hub keeps the config alone; the second answer is the first one."""
    put(hub, files)
    online = open_card("org/tiny")
    hub.requests.clear()
    cached = open_card("org/tiny", offline=True)
    assert (online.origin.kind, cached.origin.kind, hub.requests) == ("hub", "cache", [])
    assert (cached.exact, cached.notes) == (online.exact, online.notes)
    assert (cached.checkpoint_bytes, cached.license) == (online.checkpoint_bytes, "apache-2.0")
    assert online.built_from is not None
    assert cached.built_from is not None
    told, kept = online.built_from[1].inventory, cached.built_from[1].inventory
    assert told is not None
    assert kept is not None
    assert kept.tensors == told.tensors


def test_what_was_kept_of_another_commit_is_not_used(hub: FakeHub) -> None:
    put(hub, {"model.safetensors": header(llama_tensors(LLAMA))})
    hub.repos["org/tiny"].tags = {"v2": {"config.json": LLAMA}}
    open_card("org/tiny", revision="v2")
    assert from_headers(open_card("org/tiny"))
    assert open_card("org/tiny", revision="v2", offline=True).checkpoint_bytes is None


BROKEN = {
    "empty": b"",
    "no safetensors": b"version https://git-lfs",
    "cut": header(llama_tensors(LLAMA))[:-9],
    "odd dtype": header(llama_tensors(LLAMA)).replace(b"BF16", b"XF16"),
    "a list": (2).to_bytes(8, "little") + b"[]",
    "no shape": (17).to_bytes(8, "little") + b'{"a":{"dtype":1}}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_what_makes_no_sense_is_done_without(hub: FakeHub, content: bytes) -> None:
    put(hub, {"model.safetensors": content})
    assert not from_headers(open_card("org/tiny"))
    files = shards(3)
    files["model-00002-of-00003.safetensors"] = content
    put(hub, files, "org/sharded")
    hub.gives_headers = False
    assert not from_headers(open_card("org/sharded"))


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_files_that_the_hub_does_not_give(hub: FakeHub, status: int) -> None:
    put(hub, {"model.safetensors": b""})
    hub.answers["model.safetensors"] = Answer(status)
    assert not from_headers(open_card("org/tiny"))


def test_headers_that_take_too_long_are_done_without(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_cards.sources.hub_client.DEADLINE_SECONDS", 1.0)
    put(hub, {"model.safetensors": header(llama_tensors(LLAMA))}, "org/single")
    put(hub, shards(5), "org/sharded")
    hub.delay = {"safetensors": 30.0}
    for model_id in hub.repos:
        start = time.monotonic()
        card = open_card(model_id)
        assert time.monotonic() - start < 1.0
        assert (card.origin.kind, from_headers(card)) == ("hub", False)
