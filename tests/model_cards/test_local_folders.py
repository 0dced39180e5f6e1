"""Checkpoint folders: config.json, safetensors headers, an index, and what can be wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkpoint_files import llama_tensors, write_index, write_json, write_safetensors
from tiny_models import LLAMA, LLAMA_PARAMETERS, llama

from model_cards import BadConfig, UnknownModel, UnsupportedModel, open_card

UNKNOWN_CLASS = llama(architectures=["FutureForCausalLM"], model_type="future")


def folder(path: Path, config: dict[str, object] = LLAMA) -> Path:
    path.mkdir(exist_ok=True)
    write_json(path / "config.json", config)
    return path


def test_a_config_alone_gives_an_exact_card(tmp_path: Path) -> None:
    card = open_card(str(folder(tmp_path)))
    assert (card.exact, card.parameters, card.checkpoint_bytes) == (True, LLAMA_PARAMETERS, None)
    assert card.weight_bytes == 2 * LLAMA_PARAMETERS
    assert (card.origin.kind, card.origin.detail) == ("folder", str(tmp_path))
    assert card.model_id == str(tmp_path)


def test_one_file_of_weights(tmp_path: Path) -> None:
    write_safetensors(folder(tmp_path) / "model.safetensors", llama_tensors(LLAMA))
    card = open_card(str(tmp_path))
    assert card.checkpoint_bytes == 2 * LLAMA_PARAMETERS == card.weight_bytes


def test_shards(tmp_path: Path) -> None:
    tensors = llama_tensors(LLAMA)
    names = sorted(tensors)
    folder(tmp_path)
    for part in range(3):
        file = tmp_path / f"model-0000{part + 1}-of-00003.safetensors"
        write_safetensors(file, {name: tensors[name] for name in names[part::3]})
    assert open_card(str(tmp_path)).checkpoint_bytes == 2 * LLAMA_PARAMETERS


def test_an_index_names_the_files_that_count(tmp_path: Path) -> None:
    """Some repositories hold the weights a second time, in another format or split."""
    tensors = llama_tensors(LLAMA)
    write_safetensors(folder(tmp_path) / "model-00001-of-00001.safetensors", tensors)
    write_safetensors(tmp_path / "pytorch-export.safetensors", tensors)
    assert open_card(str(tmp_path)).checkpoint_bytes == 4 * LLAMA_PARAMETERS
    write_index(tmp_path, dict.fromkeys(tensors, "model-00001-of-00001.safetensors"), 999)
    assert open_card(str(tmp_path)).checkpoint_bytes == 2 * LLAMA_PARAMETERS


def test_mistrals_own_copy_of_the_weights_is_not_counted(tmp_path: Path) -> None:
    tensors = llama_tensors(LLAMA)
    write_safetensors(folder(tmp_path) / "consolidated.safetensors", tensors)
    assert open_card(str(tmp_path)).checkpoint_bytes == 2 * LLAMA_PARAMETERS
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert open_card(str(tmp_path)).checkpoint_bytes == 2 * LLAMA_PARAMETERS


def test_an_index_stands_in_for_files_that_are_not_there(tmp_path: Path) -> None:
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    write_index(folder(tmp_path), names, 47_144_806_400)
    assert open_card(str(tmp_path)).checkpoint_bytes == 47_144_806_400
    # Half a download: its one file says nothing about the whole.
    write_safetensors(tmp_path / names["a"], {"a": ("BF16", [8])})
    assert open_card(str(tmp_path)).checkpoint_bytes == 47_144_806_400
    # A dangling link, as an evicted cache leaves it, is a file that is not there.
    (tmp_path / names["b"]).symlink_to(tmp_path / "gone")
    assert open_card(str(tmp_path)).checkpoint_bytes == 47_144_806_400
    write_index(tmp_path, names)
    assert open_card(str(tmp_path)).checkpoint_bytes is None
    # DeepSeek-V3 in 16 bit: more than any dimension may have.
    write_index(tmp_path, names, 1_342_051_240_512)
    assert open_card(str(tmp_path)).checkpoint_bytes == 1_342_051_240_512


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "is not valid JSON"), ("[]", "holds a list"),
     ('{"weight_map": []}', "weight_map must be an object"),
     ('{"weight_map": {"a": 1}}', "weight_map: a must be a string; found 1"),
     ('{"weight_map": {"a": "b"}, "metadata": {"total_size": "big"}}', "total_size must be"),
     ('{"weight_map": {"a": "b"}, "metadata": {"total_size": 1%s}}' % ("0" * 59), "total_size"),
     ('{"weight_map": {"a": "b"}, "metadata": 5}', "metadata must be an object")],
)  # fmt: skip
def test_an_index_that_is_none(tmp_path: Path, text: str, problem: str) -> None:
    (folder(tmp_path) / "model.safetensors.index.json").write_text(text)
    with pytest.raises(BadConfig, match=r"model\.safetensors\.index\.json") as caught:
        open_card(str(tmp_path))
    assert problem in str(caught.value)


def test_headers_size_an_architecture_that_is_not_modelled(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="FutureForCausalLM is not modelled"):
        open_card(str(folder(tmp_path, UNKNOWN_CLASS)))
    write_safetensors(tmp_path / "model.safetensors", llama_tensors(LLAMA))
    card = open_card(str(tmp_path))
    assert not card.exact
    # All but a norm's 8 elements: what is not vocabulary is spread evenly over the layers.
    assert card.parameters == pytest.approx(LLAMA_PARAMETERS, abs=10)
    assert card.checkpoint_bytes == 2 * LLAMA_PARAMETERS


def test_headers_tell_whether_mtp_layers_are_there(tmp_path: Path) -> None:
    """A config's flag does not prove it: some repositories ship none of the weights."""
    config = llama(architectures=["MiMoForCausalLM"], model_type="mimo", num_nextn_predict_layers=1)
    assert len(open_card(str(folder(tmp_path, config))).drafts) == 1
    # Llama's tensors and biases of q, k and v in both layers, none of the MTP layer's.
    tensors = llama_tensors(config)
    for layer in ("model.layers.0", "model.layers.1"):
        for name, size in (("q_proj", 8), ("k_proj", 4), ("v_proj", 4)):
            tensors[f"{layer}.self_attn.{name}.bias"] = ("BF16", [size])
    write_safetensors(tmp_path / "model.safetensors", tensors)
    without = open_card(str(tmp_path))
    assert without.parameters == LLAMA_PARAMETERS + 2 * (8 + 4 + 4)
    assert without.drafts == ()


def test_the_side_file_of_modelopt(tmp_path: Path) -> None:
    side = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    write_json(folder(tmp_path) / "hf_quant_config.json", side)
    assert open_card(str(tmp_path)).quantization == "modelopt"
    (tmp_path / "hf_quant_config.json").write_text("{")
    with pytest.raises(BadConfig, match=r"hf_quant_config\.json is not valid JSON"):
        open_card(str(tmp_path))


def refusal(reference: str) -> str:
    with pytest.raises(UnknownModel) as caught:
        open_card(reference, offline=True)
    message = str(caught.value)
    assert message.isprintable()
    return message


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    assert refusal(str(tmp_path)) == (
        f"{tmp_path} holds no config.json; is it a Hugging Face model folder?"
    )
    assert refusal(str(tmp_path / "nothing")) == f"No folder {tmp_path / 'nothing'}"
    write_json(tmp_path / "config.json", LLAMA)
    assert refusal(str(tmp_path / "config.json")) == f"No folder {tmp_path / 'config.json'}"


@pytest.mark.parametrize("text", ["", "{", '{"hidden_size": 8, "num_hid', "[1, 2]", "\x00\x01"])
def test_a_broken_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadConfig) as caught:
        open_card(str(tmp_path))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'config.json'} ")
    assert message.isprintable()


def test_broken_weights(tmp_path: Path) -> None:
    (folder(tmp_path) / "model.safetensors").write_bytes(b"\x10\x00")
    with pytest.raises(BadConfig, match=r"model\.safetensors is too short"):
        open_card(str(tmp_path))


def test_symlinks(tmp_path: Path) -> None:
    real = folder(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    assert open_card(str(tmp_path / "link")).parameters == LLAMA_PARAMETERS
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert refusal(str(tmp_path / "a")) == f"No folder {tmp_path / 'a'}"
    looped = tmp_path / "looped"
    looped.mkdir()
    (looped / "config.json").symlink_to(looped / "config.json")
    assert "holds no config.json" in refusal(str(looped))


def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path) / "model.safetensors")
    assert open_card(str(tmp_path)).checkpoint_bytes is None
    os.mkfifo(tmp_path / "hf_quant_config.json")
    assert open_card(str(tmp_path)).quantization is None


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder(tmp_path / "my model")
    assert open_card("~/my model").origin.detail == str(tmp_path / "my model")
    assert refusal("~") == "~ holds no config.json; is it a Hugging Face model folder?"
    assert refusal("~nobody-of-that-name/model") == "No folder ~nobody-of-that-name/model"


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder(tmp_path))
    folder(tmp_path / "Qwen")
    folder(tmp_path / "Qwen" / "Qwen3-8B")
    for reference in (".", "./Qwen", "Qwen", "Qwen/Qwen3-8B", "Qwen/../Qwen/"):
        card = open_card(reference)
        assert (card.model_id, card.origin.kind) == (reference, "folder")


@pytest.mark.parametrize(
    "reference",
    ["./a\x00b", "./" + "a" * 5000, "/" + "b/" * 3000, "./x\ny\x1b[2J", "~\x00", "./\udcff"],
)
def test_paths_that_no_system_takes(reference: str) -> None:
    assert refusal(reference).startswith("No folder ")
