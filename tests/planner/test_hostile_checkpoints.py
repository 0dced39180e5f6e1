"""Checkpoints that mean harm: nothing of them is run, printed raw, or read without an end."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any, Final

import pytest
from checkpoint_files import header, llama_tensors
from fake_hub import FakeHub, Repo, away_from_the_user, connected
from program import Vplan
from tiny_models import LLAMA, LLAMA_PARAMETERS

from model_cards import BadConfig, CardError, open_card
from planner.cli.app import run

REMOTE: Final = {
    **LLAMA,
    "model_type": "songbird",
    "auto_map": {"AutoConfig": "canary.CanaryConfig", "AutoModelForCausalLM": "canary.Canary"},
}
SHORT: Final = ("--context", "64", "--prompt-tokens", "16", "--output-tokens", "16")


class _Sings:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


def canaries(folder: Path, sign: Path) -> dict[str, bytes]:
    """Files that leave a sign if anything imports or unpickles them."""
    code = f"open({str(sign)!r}, 'w')\n".encode()
    return {
        "config.json": json.dumps(REMOTE).encode(),
        "canary.py": code, "__init__.py": code, "configuration_llama.py": code,
        "pytorch_model.bin": pickle.dumps(_Sings(sign)), "model.pt": pickle.dumps(_Sings(sign)),
    }  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "canary"
    folder.mkdir()
    for name, content in canaries(folder, tmp_path / "sung").items():
        (folder / name).write_bytes(content)
    return folder


def test_code_and_pickles_of_a_folder_are_never_run(
    vplan_here: Vplan, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)  # where an import would find them
    model = str(repository)
    gpu = ("--gpu", "4090")
    for arguments in (
        ("recommend", *gpu, "--model", model, *SHORT),
        ("recommend", *gpu, "--model", model, *SHORT, "--trust-remote-code"),
        ("check", *gpu, "--", "vllm", "serve", model),
        ("check", *gpu, "--", "vllm", "serve", model, "--trust-remote-code"),
        ("models", model), ("models", "add", model), ("models", "update"), ("models", "canary"),
    ):  # fmt: skip
        said = vplan_here(*arguments)
        assert (said.status, said.err) == (0, "")
    assert not (repository.parent / "sung").exists()


def test_code_of_the_hub_is_never_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away_from_the_user(monkeypatch, tmp_path / "home")
    with connected(monkeypatch) as hub:
        files = canaries(tmp_path, tmp_path / "sung")
        hub.repos["org/canary"] = Repo(files, {"BF16": LLAMA_PARAMETERS})
        assert run(("recommend", "--gpu", "4090", "--model", "org/canary", *SHORT)) == 0
        fetched = {request.path.rpartition("/")[2] for request in hub.requests}
    assert fetched == {"canary", "config.json"}
    assert not (tmp_path / "sung").exists()
    assert "--trust-remote-code" in capsys.readouterr().out


def test_the_flag_is_there_only_if_asked_for(vplan_here: Vplan, repository: Path) -> None:
    ask = ("recommend", "--gpu", "4090", "--model", str(repository), *SHORT)
    plain, trusting = vplan_here(*ask), vplan_here(*ask, "--trust-remote-code")
    command = plain.out[plain.out.index("vllm serve") :]
    assert "will refuse it without --trust-remote-code" in " ".join(plain.out.split())
    assert "--trust-remote-code" not in command
    assert "--trust-remote-code" in trusting.out[trusting.out.index("vllm serve") :]
    assert "will refuse" not in trusting.out


def test_a_type_that_vllm_knows_needs_none(vplan_here: Vplan, tmp_path: Path) -> None:
    """DeepSeek-V3 brings code, and vLLM reads its config without."""
    config = {**REMOTE, "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = vplan_here("recommend", "--gpu", "4090", "--model", str(tmp_path), *SHORT)
    assert "remote-code" not in said.out


# --- what is printed ------------------------------------------------------------------------

EVIL: Final = "\x1b]0;owned\x07\x1b[2J\u202e"


@pytest.mark.parametrize(
    "config",
    [{**LLAMA, "architectures": [EVIL]}, {**LLAMA, "model_type": EVIL, "architectures": []},
     {**LLAMA, "torch_dtype": EVIL}, {**LLAMA, "hidden_size": EVIL}, {**LLAMA, EVIL: EVIL},
     {**LLAMA, "quantization_config": {"quant_method": EVIL}},
     {**LLAMA, "rope_scaling": {"rope_type": EVIL, "factor": 2.0}}],
    ids=lambda config: str(next((k for k in config if config[k] != LLAMA.get(k)), ""))[:12],
)  # fmt: skip
def test_escapes_in_a_config_are_not_printed(
    vplan_here: Vplan, tmp_path: Path, config: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = str(tmp_path)
    for arguments in (("models", model), ("recommend", "--gpu", "4090", "--model", model, *SHORT)):
        said = vplan_here(*arguments)
        assert said.out + said.err
        printed = (said.out + said.err).replace("\n", "")
        assert printed.isprintable()


@pytest.mark.parametrize(
    "name", ["\x1b[2Jx", "a\tb", "new\nline", "\u202egpj", "-rf", "$(id)", "a'b"]
)
def test_escapes_in_the_name_of_a_folder(vplan_here: Vplan, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    for arguments in (("models", str(folder)), ("models", "add", str(folder)),
                      ("recommend", "--gpu", "4090", "--model", str(folder), *SHORT)):  # fmt: skip
        said = vplan_here(*arguments)
        assert (said.out + said.err).replace("\n", "").isprintable()
    assert not (tmp_path / "x").exists()


def test_escapes_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                            capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    away_from_the_user(monkeypatch, tmp_path / "home")
    with connected(monkeypatch) as hub:
        hub.repos["org/tiny"] = Repo(
            {"config.json": LLAMA, f"{EVIL}.safetensors": b""}, license=EVIL,
            info={"sha": EVIL, "tags": [EVIL]},
        )  # fmt: skip
        hub.repos[f"org/{EVIL}-tiny"] = Repo({"config.json": LLAMA})
        for arguments in (("models", "org/tiny"), ("models", "search", "tiny"),
                          ("models", "add", "org/tiny")):  # fmt: skip
            run(arguments)
            printed = capsys.readouterr()
            assert (printed.out + printed.err).replace("\n", "").isprintable()


# --- files -----------------------------------------------------------------------------------


def folder_with(tmp_path: Path, **files: Any) -> str:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    for name, content in files.items():
        path = tmp_path / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(tmp_path)


def refusal(folder: str) -> str:
    with pytest.raises(BadConfig) as caught:
        open_card(folder, offline=True)
    assert str(caught.value).isprintable()
    return str(caught.value)


def weights(entries: dict[str, Any], tail: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + tail


def entry(start: int, end: int, shape: list[int], dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("entries", "problem"),
    [({"a": entry(0, 8, [4]), "b": entry(4, 12, [4])}, "'b' overlaps another tensor"),
     ({"a": entry(0, 8, [4]), "b": entry(0, 8, [4])}, "'b' overlaps another tensor"),
     ({"a": entry(0, 8, [4]), "b": entry(16, 24, [4])}, "'b' leaves a hole before it"),
     ({"a": entry(0, 8, [2**29, 2**29])}, "'a' has 8 bytes, and its dtype and shape make"),
     ({"a": entry(0, 8, [2**39, 2**39])}, "'a' has dtype 'BF16' and shape"),
     ({"a": entry(8, 0, [4])}, "'a' has data_offsets [8, 0]"),
     ({"a": entry(-8, 0, [4])}, "'a' has data_offsets [-8, 0]"),
     ({"a": entry(0, 2**63, [4])}, "'a' has data_offsets"),
     ({EVIL: entry(8, 0, [4])}, "x1b"), ({"a": {**entry(0, 8, [4]), "shape": [-4]}}, "shape")],
)  # fmt: skip
def test_headers_that_lie(tmp_path: Path, entries: dict[str, Any], problem: str) -> None:
    """safetensors itself refuses them all."""
    assert problem in refusal(folder_with(tmp_path, model__safetensors=weights(entries)))


def test_headers_that_claim_more_than_there_is(tmp_path: Path) -> None:
    for length in (2**63, 2**40, 99 << 20, 1 << 20):
        content = struct.pack("<Q", length) + b"{}"
        said = refusal(folder_with(tmp_path, model__safetensors=content))
        assert "not read" in said or "truncated" in said


def test_more_tensors_than_are_counted_go_by_the_size_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_cards.sources.local.MOST_TENSORS", 20)
    content = header(llama_tensors(LLAMA))
    card = open_card(folder_with(tmp_path, model__safetensors=content), offline=True)
    assert (card.checkpoint_bytes, card.parameters) == (len(content), LLAMA_PARAMETERS)


def test_a_config_of_half_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as stream:
        stream.truncate(500 << 20)
    assert "is larger than 64 MiB; not read" in refusal(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"[" * 2_000_001, "objects"), (b'{"a":' * 50_000, "not valid JSON"),
     (json.dumps(LLAMA).encode("utf-16"), "not valid JSON"),
     (json.dumps(LLAMA).encode("utf-32"), "not valid JSON"),
     (b"\xef\xbb\xbf" + json.dumps(LLAMA).encode(), "not valid JSON"),
     (json.dumps(LLAMA).encode().replace(b"64", b"NaN"), "NaN"),
     (json.dumps(LLAMA).encode().replace(b"64", b"-64"), "max_position_embeddings"),
     (json.dumps(LLAMA).encode().replace(b"64", b"1e400"), "max_position_embeddings"),
     (json.dumps(LLAMA).encode().replace(b"64", b"9" * 5000), "not valid JSON")],
)  # fmt: skip
def test_configs_that_transformers_would_not_read_either(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "config.json").write_bytes(content)
    assert problem in refusal(str(tmp_path))


def test_of_duplicate_keys_the_last_counts_as_it_does_for_vllm(tmp_path: Path) -> None:
    text = json.dumps(LLAMA)
    (tmp_path / "config.json").write_text(f'{{"hidden_size": 4096, {text[1:]}')
    assert open_card(str(tmp_path)).parameters == LLAMA_PARAMETERS


def test_links_out_of_the_folder_show_nothing_of_what_they_lead_to(tmp_path: Path) -> None:
    """The cache is made of such links, so they are followed; what is no config is not shown."""
    secret = tmp_path / "secret"
    secret.write_text("root:x:0:0 hunter2")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").symlink_to(secret)
    assert "hunter2" not in refusal(str(model))
    (model / "config.json").unlink()
    for target in ("/dev/zero", "/dev/stdin", str(tmp_path)):
        (model / "config.json").symlink_to(target)
        with pytest.raises(CardError, match="holds no config"):
            open_card(str(model))
        (model / "config.json").unlink()


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/../../x", EVIL, ""])
def test_an_index_that_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "secret.safetensors"
    outside.write_bytes(b"not a header")
    model = tmp_path / "model"
    model.mkdir()
    index = {"metadata": {"total_size": 10}, "weight_map": {"a": name}}
    card = open_card(folder_with(model, model__safetensors__index__json=index), offline=True)
    assert card.checkpoint_bytes == 10


@pytest.mark.parametrize("path", ["../../../etc", "/etc", "a/b", EVIL, ".", ".."])
def test_modules_that_lead_out_of_the_repository(tmp_path: Path, path: str) -> None:
    modules = [{"type": "sentence_transformers.models.Pooling", "path": path}]
    os.makedirs(tmp_path / "model")
    card = open_card(folder_with(tmp_path / "model", modules__json=modules), offline=True)
    assert card.pooling.pools


def test_revisions_lead_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away_from_the_user(monkeypatch, tmp_path / "home")
    for revision in ("../../x", "/etc/passwd", "..", "a/../../b", "\x00", EVIL, "a b"):
        with pytest.raises(CardError) as caught:
            open_card("org/tiny", revision=revision, offline=True)
        assert str(caught.value).isprintable()


def test_the_hub_is_not_asked_for_files_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away_from_the_user(monkeypatch, tmp_path / "home")

    def asked(hub: FakeHub) -> set[str]:
        return {request.path for request in hub.requests if "/resolve/" in request.path}

    with connected(monkeypatch) as hub:
        index = {"metadata": {}, "weight_map": {"a": "../../secret.safetensors"}}
        modules = [{"type": "sentence_transformers.models.Pooling", "path": "../../etc"}]
        hub.repos["org/tiny"] = Repo(
            {"config.json": LLAMA, "model.safetensors.index.json": index, "modules.json": modules}
        )
        open_card("org/tiny")
        assert asked(hub) == {
            f"/org/tiny/resolve/main/{name}"
            for name in ("config.json", "model.safetensors.index.json", "modules.json")
        }
