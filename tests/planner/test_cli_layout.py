"""What is printed into a pipe: 80 columns, no colour, nothing cut off, in any encoding."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from program import Run, Vplan, vplan

LLAMA_70B = "meta-llama/Llama-3.3-70B-Instruct"
PAGES = [
    ("recommend", "--gpu", "4090"),
    ("recommend", "--gpu", "4090", "--use-case", "agent", "--limit", "60"),
    ("recommend", "--gpu", "8xh100-sxm", "--concurrency", "32"),
    ("recommend", "--gpu", "mi300x", "--limit", "4"),
    ("recommend", "--gpu", "cpu:64GiB@80", "--limit", "4"),
    ("recommend", "--gpu", "4090+3090", "--vllm-version", "99.0", "--limit", "4"),
    ("recommend", "--gpu", "custom:23.5GiB", "--limit", "4"),
    ("recommend", "--gpu", "2x8xh100-sxm", "--model", "deepseek-ai/DeepSeek-V3"),
    ("recommend", "--gpu", "2x4090", "--model", LLAMA_70B),
    ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-8B", "--context", "40961"),
    ("recommend", "--gpu", "4090", "--model", "Qwen/Qwen3-30B-A3B-GPTQ-Int4"),
    ("recommend", "--model", LLAMA_70B),
    ("speculate", "--gpu", "4090", "--model", "Qwen/Qwen3-8B"),
    ("speculate", "--gpu", "3090", "--model", "Qwen/Qwen3-8B", "--vllm-version", "0.9.2"),
    ("recommend", "--gpu", "custom:1GiB@100"),
    ("gpus",), ("gpus", "rtx"), ("gpus", "h100"), ("gpus", "4090"), ("gpus", "mi300x"),
    ("gpus", "arc-b580"), ("models",), ("models", "llama"), ("models", "Qwen/Qwen3-30B-A3B"),
    ("models", "google/gemma-3-27b-it"), ("models", "deepseek-ai/DeepSeek-V3"), ("--help",),
    ("recommend", "--help"),
    ("speculate", "--help"),
]  # fmt: skip
COMMAND_LINE = re.compile(r"(vllm serve \S+|  --\S+( \S+)?)( \\)?")


def assert_plain(run: Run) -> None:
    assert run.out
    assert "\x1b" not in run.out + run.err
    assert "…" not in run.out
    for line in run.out.splitlines():
        # A command is copied, so it is not wrapped; it has one option a line.
        assert len(line) <= 80 or COMMAND_LINE.fullmatch(line), line


@pytest.mark.parametrize("arguments", PAGES, ids=" ".join)
def test_pages(vplan_here: Vplan, arguments: tuple[str, ...]) -> None:
    assert_plain(vplan_here(*arguments))


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_a_pipe_is_80_columns_wide_whatever_the_terminal(columns: str) -> None:
    run = vplan("recommend", "--gpu", "4090", "--limit", "3", COLUMNS=columns)
    assert_plain(run)
    assert max(len(line.rstrip()) for line in run.out.splitlines()) > 70


def test_every_name_of_the_list_can_be_copied(vplan_here: Vplan) -> None:
    """GPU names are never broken: each row begins with one that can be asked for."""
    listed = [line.split()[0] for line in vplan_here("gpus").out.splitlines()[2:] if line[:1] > " "]
    slugs = [gpu["slug"] for gpu in json.loads(vplan_here("gpus", "--json").out)["gpus"]]
    assert [name for name in listed if not name.isdigit()] == slugs  # the last line counts them


def test_a_long_command_keeps_one_option_a_line(vplan_here: Vplan, tmp_path: Path) -> None:
    path = tmp_path / ("a-very-long-folder-name-" * 5)
    path.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1000,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    run = vplan_here("recommend", "--gpu", "4090", "--model", str(path))
    assert_plain(run)
    assert f"vllm serve {path} \\\n  --max-model-len 4096 \\\n" in run.out


def test_a_folder_cannot_steer_the_terminal(vplan_here: Vplan, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred\x07"
    path.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1000,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    for arguments in (("models", str(path)), ("recommend", "--gpu", "4090", "--model", str(path))):
        run = vplan_here(*arguments)
        assert run.status == 0
        assert "\x1b" not in run.out
        assert "\x07" not in run.out
        assert "red" in run.out


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LANG": "C", "LC_ALL": "C"},
    {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "latin-1"},
]


@pytest.mark.parametrize("encoding", ASCII, ids=str)
@pytest.mark.parametrize(
    "arguments",
    [("recommend", "--gpu", "2x4090", "--limit", "2"),
     ("recommend", "--gpu", "2x4090", "--limit", "2", "--json"), ("recommend", "--gpu", "käse")],
    ids=" ".join,
)  # fmt: skip
def test_encodings_without_every_letter(
    encoding: dict[str, str], arguments: tuple[str, ...]
) -> None:
    run = vplan(*arguments, **encoding)
    assert run.status == (2 if "käse" in arguments else 0)
    assert "Traceback" not in run.err
    if "--json" in arguments:
        assert run.out.isascii()
        assert json.loads(run.out)["rig"]["description"].startswith("2 × NVIDIA")
        return
    if encoding.get("PYTHONIOENCODING") == "ascii":
        assert (run.out + run.err).isascii()
        assert not run.out or run.out.startswith("2 x NVIDIA")
    assert all(len(line) <= 80 or COMMAND_LINE.fullmatch(line) for line in run.out.splitlines())


def test_the_text_says_the_same_in_ascii() -> None:
    arguments = ("recommend", "--gpu", "2x4090", "--limit", "2")
    full, plain = vplan(*arguments), vplan(*arguments, PYTHONIOENCODING="ascii")
    simplified = full.out.replace("×", "x").replace("±", "+-")
    assert simplified.split() == plain.out.split()
