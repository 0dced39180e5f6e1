"""Wrong input: exit status 2 and exactly one line on stderr that says what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from program import Run, Vplan, vplan

ON = ("recommend", "--gpu", "4090")
MODEL = (*ON, "--offline", "--model")
CHECK = ("check", "--gpu", "4090", "--offline")
VALIDATE = ("validate", "--dry-run")
SERVE = ("--", "vllm", "serve", "Qwen/Qwen3-8B")
WRONG = [
    # arguments, words that the line must hold
    (("recommend", "--gpu", "4909"), ["4909", "rtx-4090"]),
    (("recommend", "--gpu", "rtx 40900"), ["rtx-4090"]),
    (("recommend", "--gpu", "3x"), ["3x", "lacks the name", "2x3090"]),
    (("recommend", "--gpu", ""), ["names no GPU"]),
    (("recommend", "--gpu", "0x4090"), ["0x4090"]),
    (("recommend", "--gpu", "99999x4090"), ["1024"]),
    (("recommend", "--gpu", "custom:24"), ["custom:23.5GiB"]),
    (("recommend", "--gpu", "arc-b580"), ["memory", "not known", "arc-b580:SIZE"]),
    (("recommend",), ["No GPU here"]),
    ((*MODEL, "Qwen/Qwen3-8"), ["Qwen/Qwen3-8", "Did you mean", "Qwen/Qwen3-8B"]),
    ((*MODEL, "Qwen/Qwen3-8BB"), ["Qwen/Qwen3-8B"]),
    ((*MODEL, "nobody/nothing-at-all"), ["nobody/nothing-at-all", "Unknown model"]),
    ((*MODEL, "a b"), ["a b"]),
    ((*MODEL, "/no/such/folder"), ["/no/such/folder"]),
    ((*ON, "--context", "-5"), ["context", "-5"]),
    ((*ON, "--context", "0"), ["context", "0"]),
    ((*ON, "--context", "10000000000000000000000"), ["context", "2,147,483,647"]),
    ((*ON, "--context", "100"), ["context of 100", "1024 + 384"]),
    ((*ON, "--context", "abc"), ["--context", "no number of tokens", "32k"]),
    ((*ON, "--context", "1e4"), ["--context", "no number of tokens", "32k"]),
    ((*ON, "--concurrency", "-1"), ["concurrency", "-1"]),
    ((*ON, "--concurrency", "0"), ["concurrency", "0"]),
    ((*ON, "--concurrency", "99999999999999999999"), ["concurrency", "2,147,483,647"]),
    ((*ON, "--prompt-tokens", "0"), ["prompt tokens", "0"]),
    ((*ON, "--prompt-tokens", "99999999999999999999"), ["prompt tokens"]),
    ((*ON, "--output-tokens", "-4"), ["--output-tokens", "-4"]),
    ((*ON, "--limit", "0"), ["limit", "0"]),
    ((*ON, "--limit", "-3"), ["limit", "-3"]),
    ((*ON, "--use-case", "poetry"), ["poetry", "chat", "agent"]),
    ((*ON, "--vllm-version", "abc"), ["abc", "0.33.0"]),
    ((*ON, "--vllm-version", "0.33.x"), ["0.33.x", "0.33.0"]),
    ((*ON, "--vllm-version", "0.6.3"), ["0.6.3", "0.8.5"]),
    ((*ON, "--vllm-version", "0.33.0" + "rc" * 2000 + "!"), ["0.33.0"]),
    ((*ON, "--free-memory", "99x"), ["99x", "22GiB"]),
    ((*ON, "--free-memory", "22"), ["22"]),
    ((*ON, "--free-memory", "-1GiB"), ["-1GiB"]),
    ((*ON, "--free-memory", "99GiB"), ["99.00 GiB", "23.63 GiB"]),
    ((*ON, "--reserve", "99GiB"), ["99.00 GiB", "23.63 GiB"]),
    ((*ON, "--reserve", "some"), ["some"]),
    (("recommend", "--model", "Qwen/Qwen3-32B", "--reserve", "banana"), ["--gpu"]),
    ((*ON, "--no-such-option"), ["--no-such-option", "vplan recommend --help"]),
    ((*ON, "extra"), ["extra"]),
    ((*ON, "--context"), ["--context"]),
    (("frobnicate",), ["frobnicate", "vplan --help"]),
    # Words that are no path on any system, or of nobody's home.
    (("compare", "4090", "a" * 300, "--offline"), ["Unknown GPU"]),
    (("compare", "~nobody-at-all", "~nobody", "--model", "Qwen/Qwen3-8B", "--offline"), ["nobody"]),
    ((*VALIDATE, "--launcher", "a" * 300, *SERVE), ["no such program"]),
    ((*VALIDATE, "--launcher", "~nobody-at-all/x", *SERVE), ["~nobody-at-all/x: no such program"]),
    (("validate", "--attach", "http://[::1"), ["looks like http://127.0.0.1:8000"]),
    (("validate", "--attach", "http://127.0.0.1:99999999"), ["looks like http://127.0.0.1:8000"]),
    (("calibration", "export", ""), ["is a folder, not the name of a file"]),
    (("calibration", "export", "/", "--force"), ["is a folder, not the name of a file"]),
    ((*VALIDATE, "--launcher", "uv 'run", *SERVE), ["--launcher cannot be read", "quotation"]),
    ((*CHECK, *SERVE, "--config", "~nobody-at-all/x"), ["Cannot read ~nobody-at-all/x"]),
    ((*CHECK, *SERVE, "--config", "a" * 300), ["Cannot read"]),
    (("gpus", "4909"), ["4909", "rtx-4090"]),
    (("gpus", ""), ["Unknown GPU"]),
    (("models", "nobody/nothing-at-all", "--offline"), ["nobody/nothing-at-all"]),
    (("models", "--revision", "v2"), ["--revision", "vplan models NAME"]),
    (("schema", "poem"), ["poem", "ranking"]),
    # Two of a kind are compared, with the options that such a pair needs.
    (("compare", "Qwen/Qwen3-8B", "4090"), ["OTHER-MODEL --gpu 4090", "--model Qwen/Qwen3-8B"]),
    (("compare", "4090", "Qwen/Qwen3-8B", "--gpu", "4090"), ["OTHER-MODEL --gpu 4090"]),
    (("compare", "490", "4090"), ["490", "rtx-4090"]),
    (("compare", "4090", "490", "--model", "Qwen/Qwen3-8B"), ["490", "rtx-4090"]),
    (("compare", "4090", "5090"), ["two GPUs", "--model"]),
    (("compare", "4090", "5090", "--model", "Qwen/Qwen3-8B", "--gpu", "3090"), ["leave it out"]),
    (("compare", "0.32.0", "0.33.0", "--gpu", "4090"), ["two releases", "--model"]),
    (("compare", "Qwen/Qwen3-8B", "0.33.0"), ["a model", "a vLLM release", "two of a kind"]),
    (("compare", "vllm serve Qwen/Qwen3-8B", "0.33.0"), ["a command", "two of a kind"]),
    (
        ("compare", "Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "--gpu", "4090", "--model", "Qwen/Qwen3-8B"),
        ["--model", "leave it out"],
    ),
    # Nothing that a terminal would act on comes back.
    ((*ON, "--use-case", "\x1b[31mred"), ["\\x1b[31mred"]),
    ((*ON, "--vllm-version", "\x1b]0;title\x07"), ["\\x1b"]),
    (("gpus", "\x1b[2J"), ["Unknown GPU"]),
    ((*MODEL, "\x1b[31m/x"), ["neither a folder nor a Hub model id"]),
    ((*ON, "--use-case", "two\nlines"), ["two"]),
]


def assert_one_line(run: Run, words: list[str]) -> None:
    assert run.status == 2
    assert run.out == ""
    assert run.err.startswith("vplan: ")
    assert run.err.endswith("\n")
    assert run.err.count("\n") == 1
    assert "Traceback" not in run.err
    assert run.err[:-1].isprintable()
    assert [word for word in words if word not in run.err] == []


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda a: " ".join(a)[:60])
def test_one_line(vplan_here: Vplan, arguments: tuple[str, ...], words: list[str]) -> None:
    assert_one_line(vplan_here(*arguments), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, ["no config.json"]), ("", ["not valid JSON"]),
     ('{"architectures": ["LlamaForCausalLM"], "hidden_si', ["not valid JSON"]),
     ("[" * 100_000, ["not valid JSON"]), ("[1, 2]", ["list"]), ('"text"', ["JSON object"]),
     ("{}", ["config.json"]), ('{"architectures": []}', ["config.json"]),
     ('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}', ["config.json"]),
     ('{"architectures": ["LlamaForCausalLM"], "hidden_size": -5}', ["config.json"]),
     ('{"architectures": ["\\u001b[31mForCausalLM"]}', ["config.json"]),
     ("\x00\x01\x02", ["config.json"])],
)  # fmt: skip
def test_broken_folders(
    vplan_here: Vplan, tmp_path: Path, content: str | None, words: list[str]
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert_one_line(vplan_here(*MODEL, str(tmp_path)), words)
    assert_one_line(vplan_here("models", str(tmp_path)), words)


def test_a_config_that_is_no_text(vplan_here: Vplan, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00{")
    assert_one_line(vplan_here(*MODEL, str(tmp_path)), ["config.json"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("recommend", "--gpu", "4909"), ["rtx-4090"]),
     (("recommend", "--gpu", "3x"), ["2x3090"]),
     ((*MODEL, "Qwen/Qwen3-8"), ["Qwen/Qwen3-8B"]),
     ((*ON, "--context", "0"), ["context"]),
     ((*ON, "--no-such-option"), ["vplan recommend --help"])],
)  # fmt: skip
def test_one_line_from_the_installed_command(arguments: tuple[str, ...], words: list[str]) -> None:
    assert_one_line(vplan(*arguments), words)


def test_arguments_that_are_no_text() -> None:
    for arguments in ((b"gpus", b"\xff\xfe"), (b"recommend", b"--gpu", b"\xff"),
                      (b"models", os.fsencode("\udcff/x"))):  # fmt: skip
        assert_one_line(vplan(*arguments), [])
