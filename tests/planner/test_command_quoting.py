"""Model paths that a shell would take apart come through in one piece, and as vLLM needs them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from launches import plan

from model_cards.sources.local import open_folder
from planner import render_command
from planner.engine_config import SpeculativeConfig

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1000,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
}  # fmt: skip


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def words_of_a_shell(command: str, where: Path) -> list[str]:
    """What `vllm` would get as its arguments: a real shell reads the command."""
    script = f"vllm() {{ printf '%s\\0' vllm \"$@\"; }}\n{command}\n"
    run = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True, cwd=where)
    assert run.stderr == b""
    return [os.fsdecode(word) for word in run.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize(
    "name",
    ["my model", "it's", 'say "hi"', "$HOME", "${PATH}", "$(touch owned)", "`touch owned`",
     "a;touch owned", "a|b", "a&b", "a>b", "*", "~", "#x", "!x", "back\\slash", "tab\tname",
     "line\nbreak", "ümläut", "-dash", "--help", "a\\\nb", "'"],
)  # fmt: skip
def test_odd_paths_reach_vllm_unharmed(tmp_path: Path, name: str) -> None:
    path = folder(tmp_path / name)
    command = render_command(plan(open_folder(str(path))))
    assert command.model == str(path)
    assert words_of_a_shell(command.shell(), tmp_path) == command.argv
    assert not (tmp_path / "owned").exists()


def test_a_structured_setting_is_one_word_of_json(tmp_path: Path) -> None:
    command = render_command(plan(speculative_config=SpeculativeConfig("ngram", 3)))
    words = words_of_a_shell(command.shell(), tmp_path)
    assert words == command.argv
    value = words[words.index("--speculative-config") + 1]
    assert json.loads(value) == {"method": "ngram", "num_speculative_tokens": 3}


def test_a_relative_path_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "--help")
    monkeypatch.chdir(tmp_path)
    for reference in ("--help", "./--help"):
        command = render_command(plan(open_folder(reference)))
        model = words_of_a_shell(command.shell(), tmp_path)[2]
        assert not model.startswith("-")
        assert (tmp_path / model / "config.json").is_file()


def test_a_home_folder_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quoted ~ would reach vLLM as it stands, and vLLM does not expand it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder(tmp_path / "models" / "mine")
    command = render_command(plan(open_folder("~/models/mine")))
    assert command.argv[2] == str(tmp_path / "models" / "mine")


def test_a_hub_id_stays_a_hub_id() -> None:
    assert render_command(plan("Qwen/Qwen3-8B")).argv[2] == "Qwen/Qwen3-8B"


def test_no_secret_of_the_environment_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "hf_never-show-this")
    command = render_command(plan())
    assert "never-show-this" not in command.shell()
    assert "TOKEN" not in command.shell().upper().replace("BATCHED-TOKENS", "")
