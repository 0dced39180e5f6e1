"""`vplan models search`, `add` and `update`: the user's own catalogue, with a Hub on loopback."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest
from checkpoint_files import header, llama_tensors
from fake_hub import Answer, FakeHub, Repo, away_from_the_user, connected
from huggingface_hub import constants
from program import Run
from tiny_models import LLAMA, LLAMA_PARAMETERS, llama

from model_cards import open_card
from model_cards.sources import bundled, user_catalogue
from planner.cli.app import run

Vplan = Callable[..., Run]
FILES = {"config.json": LLAMA, "model.safetensors": header(llama_tensors(LLAMA))}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    away_from_the_user(monkeypatch, tmp_path / "home")
    with connected(monkeypatch) as server:
        server.repos["org/tiny"] = Repo(dict(FILES), {"BF16": LLAMA_PARAMETERS})
        yield server


@pytest.fixture
def vplan(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> Vplan:
    def vplan(*arguments: str) -> Run:
        capsys.readouterr()
        status = run(arguments)
        printed = capsys.readouterr()
        return Run(status, printed.out, printed.err)

    return vplan


def test_a_kept_model_needs_no_hub(hub: FakeHub, vplan: Vplan) -> None:
    added = vplan("models", "add", "org/tiny")
    assert (added.status, added.err) == (0, "")
    assert "org/tiny is kept" in added.out
    hub.answers["/"] = Answer(503)
    hub.requests.clear()
    for name in ("org/tiny", "ORG/Tiny"):
        card = open_card(name)
        assert (card.origin.kind, card.model_id, card.exact) == ("kept", "org/tiny", True)
        assert (card.parameters, card.checkpoint_bytes) == (LLAMA_PARAMETERS, 2 * LLAMA_PARAMETERS)
    assert hub.requests == []
    listed = vplan("models", "tiny", "--json")
    ids = [model["id"] for model in json.loads(listed.out)["models"]]
    assert "org/tiny" in ids
    assert "org/tiny" in vplan("models").out


def test_an_update_reads_it_anew(hub: FakeHub, vplan: Vplan) -> None:
    vplan("models", "add", "org/tiny")
    same = vplan("models", "update")
    assert (same.status, "org/tiny: unchanged" in same.out) == (0, True)
    hub.repos["org/tiny"].files["config.json"] = llama(max_position_embeddings=256)
    changed = vplan("models", "update", "org/tiny")
    assert (changed.status, "org/tiny: changed" in changed.out) == (0, True)
    assert open_card("org/tiny").max_model_len == 256


def test_an_update_that_fails_changes_nothing(hub: FakeHub, vplan: Vplan) -> None:
    vplan("models", "add", "org/tiny")
    hub.answers["/api/models"] = Answer(503)
    failed = vplan("models", "update")
    assert (failed.status, failed.out) == (1, "")
    assert failed.err == (
        "vplan: org/tiny: the Hub did not answer (its server fails, status 503); unchanged\n"
    )
    assert open_card("org/tiny").origin.kind == "kept"


def test_the_bundled_snapshot_is_never_written_to(hub: FakeHub, vplan: Vplan) -> None:
    files = sorted((Path(bundled.__file__).parents[1] / "data").iterdir())
    before = [hashlib.sha256(file.read_bytes()).digest() for file in files]
    hub.repos["Qwen/Qwen3-8B"] = Repo({"config.json": LLAMA}, {"BF16": LLAMA_PARAMETERS})
    assert vplan("models", "add", "qwen/qwen3-8b").status == 0
    assert vplan("models", "update").status == 0
    assert open_card("Qwen/Qwen3-8B").parameters == LLAMA_PARAMETERS
    assert [hashlib.sha256(file.read_bytes()).digest() for file in files] == before


def test_a_revision_is_kept_beside_the_model(hub: FakeHub, vplan: Vplan) -> None:
    hub.repos["org/tiny"].tags = {"v2": {"config.json": llama(max_position_embeddings=256)}}
    vplan("models", "add", "org/tiny")
    assert "org/tiny@v2 is kept" in vplan("models", "add", "org/tiny@v2").out
    hub.answers["/"] = Answer(503)
    assert open_card("org/tiny").max_model_len == 64
    assert open_card("org/tiny@v2").max_model_len == 256
    assert open_card("org/tiny", revision="v2").origin.revision == "v2"


def test_a_folder_is_kept_by_its_name(hub: FakeHub, vplan: Vplan, tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert "my-model is kept" in vplan("models", "add", str(folder)).out
    assert open_card("my-model").model_id == str(folder)
    named = vplan("models", "add", str(folder), "--name", "mine")
    assert "mine is kept" in named.out
    assert f"vllm serve {folder}" in vplan("recommend", "--gpu", "4090", "--model", "mine",
                                           "--context", "64", "--prompt-tokens", "16",
                                           "--output-tokens", "16").out  # fmt: skip
    (folder / "config.json").write_text(json.dumps(llama(max_position_embeddings=256)))
    assert "mine: changed" in vplan("models", "update", "mine").out
    bad = vplan("models", "add", str(folder), "--name", "../mine")
    assert (bad.status, bad.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\x00", b"{}", b'{"format":0}', b"[" * 99_999,
     b'{"format":1,"id":"org/tiny","fetched":"2026-01-01","origin":{"kind":"hub","detail":""},'
     b'"config":{}}',
     b'{"format":1,"id":"org/tiny","fetched":"2026-01-01","origin":{"kind":"hub","detail":""},'
     b'"config":{"architectures":["X"]},"tensors":[["BF16",[1],["a.{0-99999999999}"]]]}',
     b'{"format":1,"id":"org/tiny","fetched":"2026-01-01","origin":{"kind":"hub","detail":""},'
     b'"config":{"architectures":["X"]},"tensors":[["BF16",[1],["a.{1-300001}"]]]}'],
)  # fmt: skip
def test_a_broken_file_is_set_aside(vplan: Vplan, content: bytes) -> None:
    vplan("models", "add", "org/tiny")
    (file,) = user_catalogue.folder().iterdir()
    file.write_bytes(content)
    listed = vplan("models", "tiny")
    assert listed.status == 0
    assert listed.err.count("\n") == 1
    assert f"{file.name}.broken" in listed.err
    assert [each.name for each in user_catalogue.folder().iterdir()] == [f"{file.name}.broken"]
    assert vplan("models", "tiny").err == ""


def test_what_was_set_aside_before_stays(vplan: Vplan) -> None:
    for content in (b"first", b"second"):
        vplan("models", "add", "org/tiny")
        next(user_catalogue.folder().glob("*.json")).write_bytes(content)
        assert "is broken" in vplan("models", "tiny").err
    assert {each.read_bytes() for each in user_catalogue.folder().iterdir()} == {
        b"first",
        b"second",
    }


def test_a_file_of_a_later_vplan_is_left_alone(vplan: Vplan) -> None:
    vplan("models", "add", "org/tiny")
    (file,) = user_catalogue.folder().iterdir()
    file.write_bytes(b'{"format": 9}')
    listed = vplan("models", "tiny")
    assert (listed.status, listed.err.count("\n")) == (0, 1)
    assert "was written by a newer vplan; this one leaves it alone" in listed.err
    assert file.read_bytes() == b'{"format": 9}'


def test_a_broken_file_does_not_stop_a_plan(vplan: Vplan) -> None:
    vplan("models", "add", "org/tiny")
    (file,) = user_catalogue.folder().iterdir()
    file.write_text("{")
    card = open_card("org/tiny")
    assert card.origin.kind == "cache"
    assert "is broken" in card.notes[-1]


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is broken (.+); renamed org--tiny.json.broken"),
     ('{"format": 9}', "was written by a newer vplan; this one leaves it alone")],
)  # fmt: skip
@pytest.mark.parametrize(
    "arguments",
    [("models", "org/tiny"), ("models", "org/tiny", "--json"),
     ("recommend", "--gpu", "4090", "--model", "org/tiny"),
     ("check", "--gpu", "4090", "--", "vllm", "serve", "org/tiny")],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_nothing_else_knows_a_model_whose_file_is_broken(
    hub: FakeHub, vplan: Vplan, arguments: tuple[str, ...], content: str, said: str
) -> None:
    vplan("models", "add", "org/tiny")
    (file,) = user_catalogue.folder().iterdir()
    file.write_text(content)
    shutil.rmtree(constants.HF_HUB_CACHE)
    hub.answers["/"] = Answer(503)
    run = vplan(*arguments)
    assert (run.status, run.out) == (2, "")
    assert re.fullmatch(
        r"vplan: Unknown model org/tiny: .+\. What you kept of it: .*org--tiny\.json.* "
        rf"{said}\n", run.err,
    )  # fmt: skip


def test_search(hub: FakeHub, vplan: Vplan) -> None:
    hub.repos["org/qwen3-tiny"] = Repo(dict(FILES), {"BF16": LLAMA_PARAMETERS}, gated=True)
    found = vplan("models", "search", "qwen3", "--json", "--limit", "200")
    printed = json.loads(found.out)
    jsonschema.validate(printed, json.loads(vplan("schema", "search").out))
    models = printed["models"]
    assert models[0] == {
        "id": "org/qwen3-tiny", "source": "hub", "bundled": False, "license": "apache-2.0",
        "parameters": LLAMA_PARAMETERS, "gated": True, "downloads": 1,
    }  # fmt: skip
    assert any(model["id"] == "Qwen/Qwen3-8B" for model in models)
    assert "org/qwen3-tiny" in vplan("models", "search", "QWEN3").out
    nothing = vplan("models", "search", "no-such-name")
    assert (nothing.status, nothing.out) == (1, "")


def test_search_without_a_hub(hub: FakeHub, vplan: Vplan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_cards.sources.hub_client.DEADLINE_SECONDS", 0.4)
    hub.answers["/api/models"] = Answer(429, headers={"Retry-After": "9"})
    found = vplan("models", "search", "qwen3 fp8")
    assert (found.status, found.err) == (0, "")
    assert "Qwen/Qwen3-8B-FP8" in found.out
    assert "The Hub was not searched: the Hub" in found.out
    assert vplan("models", "search", "qwen3", "--offline").status == 0


@pytest.mark.parametrize(
    "arguments",
    [("add",), ("add", ""), ("add", "a b"), ("add", "org/none"), ("add", "org/tiny@"),
     ("add", "/no/folder"), ("add", "org/tiny", "--name", "x"), ("search",), ("search", " "),
     ("search", "x", "--limit", "0"), ("update", "org/tiny"), ("update",), ("update", "\x1b[2J")],
    ids=" ".join,
)  # fmt: skip
def test_wrong_input(vplan: Vplan, arguments: tuple[str, ...]) -> None:
    said = vplan("models", *arguments)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err[:-1].isprintable()


@pytest.mark.parametrize(
    "arguments",
    [("recommend", "--gpu", "4090", "--limit", "2"), ("gpus", "4090"), ("models", "qwen3-8b"),
     ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B"), ("models", "Qwen/Qwen3-8B"),
     ("check", "--gpu", "4090", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "4096",
      "--speculative-config",
      '{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}'),
     ("models", "search", "qwen3"), ("models", "kept/tiny"), ("models", "org/cached"),
     ("recommend", "--model", "Qwen/Qwen3-8B", "--gpu", "h100"), ("schema", "gpus")],
    ids=lambda arguments: " ".join(arguments)[:50],
)  # fmt: skip
def test_with_the_network_cut_every_command_answers(
    hub: FakeHub, vplan: Vplan, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """What is bundled, cached or kept; nobody has to say --offline."""
    for name in ("kept/tiny", "org/cached"):
        hub.repos[name] = Repo(dict(FILES), {"BF16": LLAMA_PARAMETERS})
    vplan("models", "add", "kept/tiny")
    open_card("org/cached")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    said = vplan(*arguments)
    assert (said.status, said.err) == (0, "")
    assert said.out
