"""The Hub through huggingface_hub itself, spoken to over HTTP on the loopback interface."""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fake_hub import Answer, FakeHub, Repo
from gguf_files import gguf
from huggingface_hub import constants
from platformdirs import user_cache_path
from tiny_models import LLAMA, LLAMA_PARAMETERS, llama

from model_cards import (
    BadConfig,
    CardError,
    GatedModel,
    UnknownModel,
    UnsupportedModel,
    open_card,
)
from model_cards.sources.search import search_hub

BUNDLED = "Qwen/Qwen3-8B"
BUNDLED_PARAMETERS = 8_190_735_360  # as its model page states


@pytest.fixture(autouse=True)
def repositories(hub: FakeHub) -> None:
    hub.repos["org/tiny"] = Repo({"config.json": LLAMA}, {"BF16": LLAMA_PARAMETERS})
    hub.repos[BUNDLED] = Repo({"config.json": LLAMA}, {"BF16": LLAMA_PARAMETERS})


def paths(hub: FakeHub) -> list[str]:
    return [request.path for request in hub.requests]


def refusal(kind: type[CardError], reference: str, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        open_card(reference, **options)
    assert type(caught.value) is kind
    message = str(caught.value)
    assert message.isprintable()
    return message


def bundled_note(**options: Any) -> str:
    """Why the bundled snapshot stands in for `BUNDLED`."""
    card = open_card(BUNDLED, **options)
    assert (card.origin.kind, card.parameters) == ("bundled", BUNDLED_PARAMETERS)
    *_, note = card.notes
    said = re.fullmatch(r"(.+); the bundled snapshot of its config \((.+?)\).* is used", note)
    assert said is not None
    assert date.fromisoformat(said[2]) <= date.today()
    assert note.isprintable()
    return said[1]


def test_an_ordinary_model(hub: FakeHub) -> None:
    hub.repos["org/tiny"].files["README.md"] = b"# Tiny"
    card = open_card("org/tiny")
    assert (card.origin.kind, card.exact, card.parameters) == ("hub", True, LLAMA_PARAMETERS)
    assert (card.checkpoint_bytes, card.license) == (2 * LLAMA_PARAMETERS, "apache-2.0")
    assert card.notes == ()
    assert len(card.origin.detail.removeprefix("revision ")) == 40
    # The description and the config: no weights, no code, nothing else.
    assert set(paths(hub)) == {"/api/models/org/tiny", "/org/tiny/resolve/main/config.json"}


def test_shards_are_counted_without_their_index(hub: FakeHub) -> None:
    hub.repos["org/tiny"].files |= {
        "model.safetensors.index.json": {"metadata": {"total_size": 1}, "weight_map": {}},
        "model-00001-of-00002.safetensors": b"",
        "model-00002-of-00002.safetensors": b"",
    }
    # The shards are no safetensors files, so the description's totals stand.
    assert open_card("org/tiny").checkpoint_bytes == 2 * LLAMA_PARAMETERS
    assert not any("/resolve/main/model.safetensors.index" in path for path in paths(hub))


def test_totals_of_several_dtypes(hub: FakeHub) -> None:
    hub.repos["org/tiny"].elements = {"F8_E4M3": 1000, "F32": 10, "BF16": 300}
    assert open_card("org/tiny").checkpoint_bytes == 1000 + 40 + 600


def test_a_total_tells_whether_mtp_layers_are_there(hub: FakeHub) -> None:
    mimo = llama(architectures=["MiMoForCausalLM"], model_type="mimo", num_nextn_predict_layers=1)
    biases = 2 * (8 + 4 + 4)  # of q, k and v, in two layers
    hub.repos["org/mimo"] = Repo({"config.json": mimo}, {"BF16": LLAMA_PARAMETERS + biases})
    assert open_card("org/mimo").drafts == ()
    hub.repos["org/mimo-mtp"] = Repo({"config.json": mimo}, {"BF16": LLAMA_PARAMETERS + 2000})
    assert len(open_card("org/mimo-mtp").drafts) == 1


def test_a_total_sizes_an_architecture_that_is_not_modelled(hub: FakeHub) -> None:
    config = llama(architectures=["FutureForCausalLM"], model_type="future")
    hub.repos["org/future"] = Repo({"config.json": config}, {"BF16": 1000})
    for kind in ("hub", "cache"):  # what the Hub counted is kept beside the cached config
        card = open_card("org/future")
        assert (card.origin.kind, card.exact) == (kind, False)
        assert card.parameters == pytest.approx(1000, abs=10)
        assert "FutureForCausalLM is not modelled" in card.notes[0]
    shutil.rmtree(user_cache_path("vplan"))
    message = refusal(UnsupportedModel, "org/future", offline=True)
    assert "its size is not known" in message
    assert open_card("org/future").origin.kind == "hub"


def test_the_side_file_of_modelopt(hub: FakeHub) -> None:
    side = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]},
    }
    hub.repos["org/tiny"].files["hf_quant_config.json"] = side
    assert open_card("org/tiny").quantization == "modelopt_fp4"
    cached = open_card("org/tiny", offline=True)
    assert (cached.origin.kind, cached.quantization) == ("cache", "modelopt_fp4")


def test_a_renamed_repository(hub: FakeHub) -> None:
    hub.renamed["old/name"] = "org/tiny"
    card = open_card("old/name")
    assert (card.model_id, card.parameters) == ("org/tiny", LLAMA_PARAMETERS)


def test_an_id_in_another_case_is_asked_for_as_the_hub_spells_it(hub: FakeHub) -> None:
    card = open_card("qwen/QWEN3-8b")
    assert (card.origin.kind, card.model_id) == ("hub", BUNDLED)
    assert paths(hub)[0] == f"/api/models/{BUNDLED}"


def test_the_cache_is_asked_first(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    online = open_card("org/tiny")
    hub.requests.clear()
    card = open_card("org/tiny")
    assert (card.origin.kind, card.parameters) == ("cache", online.parameters)
    assert card.origin.detail == f"{online.origin.detail}, fetched on {date.today()}"
    assert open_card("org/tiny", offline=True).origin.kind == "cache"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert open_card("org/tiny").origin.kind == "cache"
    assert hub.requests == []


def test_revisions(hub: FakeHub) -> None:
    hub.repos["org/tiny"].tags = {"v2": {"config.json": llama(max_position_embeddings=256)}}
    assert open_card("org/tiny").max_model_len == 64
    tagged = open_card("org/tiny", revision="v2")
    assert (tagged.origin.kind, tagged.max_model_len) == ("hub", 256)
    commit = tagged.origin.detail.removeprefix("revision ")
    for revision, length in (("v2", 256), (commit, 256), (None, 64), ("main", 64)):
        card = open_card("org/tiny", revision=revision, offline=True)
        assert (card.origin.kind, card.max_model_len) == ("cache", length)


def test_a_commit_that_is_not_cached_yet(hub: FakeHub) -> None:
    hub.repos["org/tiny"].tags = {"v2": {"config.json": llama(max_position_embeddings=256)}}
    found = hub.repos["org/tiny"].at("v2")
    assert found is not None
    assert open_card("org/tiny", revision=found[0]).max_model_len == 256


def test_a_revision_that_is_not_there(hub: FakeHub) -> None:
    assert refusal(UnknownModel, "org/tiny", revision="v9") == (
        "Cannot open revision v9 of org/tiny: the Hub has no such revision of this model."
    )
    # The bundled snapshot is of no particular revision, so it does not stand in.
    message = refusal(UnknownModel, BUNDLED, revision="v9")
    assert message.startswith(f"Cannot open revision v9 of {BUNDLED}: the Hub has no such revision")
    message = refusal(UnknownModel, BUNDLED, revision="a\x00b/../c", offline=True)
    assert message == rf"Cannot open revision a\x00b/../c of {BUNDLED}: offline."


def test_a_missing_model_with_near_misses() -> None:
    message = refusal(UnknownModel, "qwen/qwen3-8")
    assert message.startswith(
        "Unknown model qwen/qwen3-8: the Hub has no model of that name. Did you mean Qwen/Qwen3-8B"
    )


def test_a_missing_model_like_no_other() -> None:
    message = refusal(UnknownModel, "zzyzx/0000-xyzzy")
    assert message == "Unknown model zzyzx/0000-xyzzy: the Hub has no model of that name."


@pytest.mark.parametrize("reference", ["foo--bar/x", "a..b", "org/x.git", "o/" + "x" * 200])
def test_names_that_the_hub_allows_nobody(hub: FakeHub, reference: str) -> None:
    message = refusal(UnknownModel, reference)
    assert message.startswith(f"Unknown model {reference}: the Hub allows no such name.")
    assert hub.requests == []


def test_a_repository_without_a_config(hub: FakeHub) -> None:
    hub.repos["org/gguf"] = Repo({"model-q4.gguf": b""})
    assert "the Hub's repository has no config.json" in refusal(UnknownModel, "org/gguf")


def test_a_bundled_model_that_the_hub_no_longer_has(hub: FakeHub) -> None:
    del hub.repos[BUNDLED]
    assert bundled_note() == "the Hub has no model of that name"


LICENCE = "the Hub wants an accepted licence: accept it on the model's page, then set HF_TOKEN"


@pytest.mark.parametrize("token", ["", "hf_known"], ids=["anonymous", "not let in"])
def test_a_gated_model(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub.tokens = {"hf_known"}
    hub.repos["org/tiny"].gated = hub.repos[BUNDLED].gated = True
    assert refusal(GatedModel, "org/tiny") == f"org/tiny: {LICENCE}."
    assert bundled_note() == LICENCE
    card = open_card(BUNDLED)  # totals are told to everybody
    assert card.checkpoint_bytes == 2 * LLAMA_PARAMETERS
    told = f"its files hold {LLAMA_PARAMETERS:,} parameters by the Hub's count"
    assert any(note.startswith(told) for note in card.notes)


TOKEN = "hf_aVerySecretTokenOfNobody"


def test_the_token_goes_to_the_hub_as_a_bearer(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.tokens = hub.granted = {TOKEN}
    hub.repos["org/tiny"].gated = True
    card = open_card("org/tiny")
    assert card.parameters == LLAMA_PARAMETERS
    assert {request.token for request in hub.requests} == {f"Bearer {TOKEN}"}
    assert TOKEN not in repr(card)


def test_a_token_saved_at_login(hub: FakeHub) -> None:
    hub.tokens = {TOKEN}
    hub.repos["org/tiny"].private = True
    message = refusal(UnknownModel, "org/tiny")
    assert message.startswith("Unknown model org/tiny: the Hub has no model of that name.")
    saved = Path(constants.HF_TOKEN_PATH)
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(TOKEN)
    assert open_card("org/tiny").parameters == LLAMA_PARAMETERS


def test_a_token_that_is_not_valid(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    message = refusal(UnknownModel, "org/tiny")
    assert "the Hub refuses access (status 401); check HF_TOKEN" in message
    assert TOKEN not in message
    assert bundled_note() == "the Hub refuses access (status 401); check HF_TOKEN"


def test_a_server_that_repeats_the_token(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    echo = f'{{"error": "bad token {TOKEN}"}}'.encode()
    for status in (400, 401, 403, 404, 418, 500):
        hub.answers["/api/models"] = Answer(status, echo, {"X-Error-Message": f"token {TOKEN}"})
        assert TOKEN not in bundled_note()
        assert TOKEN not in refusal(UnknownModel, "org/tiny")


# What a Hub that is there, but not well, answers.
UNWELL = {
    "busy": Answer(503),
    "rate limit": Answer(429, headers={"ratelimit": '"api";r=0;t=55'}),
    "bare 403": Answer(403, b"Forbidden by the proxy"),
    "nothing": Answer(200),
    "HTML": Answer(200, b"<html>Log in to this network</html>", {"Content-Type": "text/html"}),
    "truncated JSON": Answer(200, b'{"id": "org/ti'),
    "a list": Answer(200, b"[]"),
    "no id": Answer(200, b"{}"),
    "wrong types": Answer(200, b'{"id": 5, "siblings": 7, "safetensors": "x", "sha": []}'),
}


@pytest.mark.parametrize("answer", UNWELL.values(), ids=UNWELL.keys())
def test_an_unwell_hub_is_passed_over(hub: FakeHub, answer: Answer) -> None:
    hub.answers["/api/models"] = answer
    assert bundled_note().startswith(
        ("the Hub did not answer", "the Hub refuses", "the Hub limits", "the Hub's answer")
    )


def test_an_unwell_hub_and_a_model_that_is_not_bundled(hub: FakeHub) -> None:
    hub.answers["/api/models"] = Answer(503)
    message = refusal(UnknownModel, "qwen/qwen3-8")
    assert "not in the bundled catalogue, and the Hub did not answer" in message
    assert "Did you mean Qwen/Qwen3-8B" in message


def test_odd_descriptions_do_no_harm(hub: FakeHub) -> None:
    repo = hub.repos["org/tiny"]
    repo.license = ["mit", "apache-2.0"]
    repo.info = {"safetensors": {"parameters": {"BF16": 10, "X9": 5}, "total": 15}}
    card = open_card("org/tiny")
    assert (card.license, card.checkpoint_bytes) == (None, None)
    hub.repos["org/bare"] = Repo({"config.json": LLAMA}, info={"cardData": None})
    assert open_card("org/bare").parameters == LLAMA_PARAMETERS


@pytest.mark.parametrize("told", [1e308, 7, None, "", ["org/tiny"], {}, "a b", "../x", "\x1b[2J"])
def test_a_name_that_is_none_is_the_one_asked_for(hub: FakeHub, told: Any) -> None:
    files = {"config.json": LLAMA, "tiny.Q4_K_M.gguf": gguf()}
    hub.repos["org/tiny"] = Repo(files, info={"id": told, "sha": told})
    for name in ("org/tiny", "org/tiny:Q4_K_M"):
        card = open_card(name)
        assert card.model_id == name
        revision = told if isinstance(told, str) and told else None
        assert card.origin.detail == (f"revision {revision}" if revision else "latest revision")
    assert all(isinstance(found.id, str) for found in search_hub("tiny", 5))


@pytest.mark.parametrize("number", [10**59, 10**400, 2**60, -1, 1.5, True, "9", None])
def test_numbers_that_no_checkpoint_has_are_none(hub: FakeHub, number: Any) -> None:
    repo = hub.repos["org/tiny"]
    repo.info = {"safetensors": {"parameters": {"BF16": number}, "total": number},
                 "downloads": number}  # fmt: skip
    repo.files = {"config.json": LLAMA, "model.safetensors": b"no header"}
    repo.sizes = {"model.safetensors": number}
    card = open_card("org/tiny")
    assert (card.parameters, card.checkpoint_bytes) == (LLAMA_PARAMETERS, None)
    (found,) = search_hub("tiny", 5)
    assert (found.parameters, found.downloads) == (None, None)


@pytest.mark.parametrize("content", [b'{"hidden_size": 8, ', b"[]", b"\x00\xff"])
def test_a_broken_config_on_the_hub(hub: FakeHub, content: bytes) -> None:
    hub.repos["org/tiny"].files["config.json"] = content
    assert "config.json" in refusal(BadConfig, "org/tiny")


def test_a_config_that_cannot_be_is_named_by_model_and_key(hub: FakeHub) -> None:
    hub.repos["org/tiny"].files["config.json"] = llama(hidden_size="wide")
    assert refusal(BadConfig, "org/tiny") == (
        "org/tiny: config.json: hidden_size must be a whole number; found 'wide'"
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline shortened; how long it is, test_hub_process.py measures."""
    monkeypatch.setattr("model_cards.sources.hub_client.DEADLINE_SECONDS", 0.4)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("part", ["/api/models", "/resolve/", "/"])
def test_a_slow_hub_is_not_waited_for(hub: FakeHub, part: str) -> None:
    hub.delay[part] = 30.0
    assert bundled_note().startswith("the Hub did not answer")


@pytest.mark.usefixtures("impatient")
def test_files_that_the_hub_stops_giving(hub: FakeHub) -> None:
    """huggingface_hub retries such for half a minute."""
    hub.answers["/resolve/"] = Answer(503)
    assert bundled_note().startswith("the Hub did not answer")


def test_a_proxy_that_forbids_files(hub: FakeHub) -> None:
    hub.answers["/resolve/"] = Answer(403)
    assert bundled_note() == "the Hub refuses access (status 403); check HF_TOKEN"


def test_no_hub_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port
    assert bundled_note().startswith("the Hub did not answer")
    message = refusal(UnknownModel, "org/tiny")
    assert "not in the bundled catalogue, and the Hub did not answer" in message


@pytest.mark.parametrize("by_setting", [True, False])
def test_offline(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, by_setting: bool) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", by_setting)
    card = open_card(BUNDLED, offline=not by_setting)
    assert (card.origin.kind, card.notes) == ("bundled", ())  # as asked for: nothing to explain
    message = refusal(UnknownModel, "org/tiny", offline=not by_setting)
    assert message.startswith("Unknown model org/tiny: not in the bundled catalogue, and offline.")
    assert hub.requests == []
