"""Commands with some options changed: the rest stays as it was written."""

from __future__ import annotations

import shlex

import pytest

from planner.command.amend import amended, without_option
from planner.engine.releases import find_release

RELEASE = find_release("0.32.0")


@pytest.mark.parametrize(
    ("command", "change", "after"),
    [
        ("vllm serve m", "--max-model-len 2048", "vllm serve m --max-model-len 2048"),
        ("vllm serve m --max-model-len 4096 --seed 1", "--max-model-len 2048",
         "vllm serve m --seed 1 --max-model-len 2048"),
        ("vllm serve m --max_model_len=4096", "--max-model-len 2048",
         "vllm serve m --max-model-len 2048"),
        ("vllm serve m --max-model 4096", "--max-model-len 2048",
         "vllm serve m --max-model-len 2048"),
        ("A=1 vllm serve m -tp 2 --seed 1", "--tensor-parallel-size 4",
         "A=1 vllm serve m --seed 1 --tensor-parallel-size 4"),
        ("vllm serve m", "--enforce-eager (slower)", "vllm serve m --enforce-eager"),
        ("vllm serve m --no-enable-prefix-caching -tp 2", "--enable-prefix-caching",
         "vllm serve m -tp 2 --enable-prefix-caching"),
        ("python -m vllm.entrypoints.openai.api_server --model m --seed 1",
         "n with --max-num-seqs 4",
         "python -m vllm.entrypoints.openai.api_server --model n --seed 1 --max-num-seqs 4"),
        ("docker run --gpus all vllm/vllm-openai:v0.19.1 --model m", "n",
         "docker run --gpus all vllm/vllm-openai:v0.19.1 --model n"),
        ("vllm serve m --temp -1", "--max-num-seqs 4 --max-num-batched-tokens 1024",
         "vllm serve m --temp -1 --max-num-seqs 4 --max-num-batched-tokens 1024"),
    ],
)  # fmt: skip
def test_changes(command: str, change: str, after: str) -> None:
    assert shlex.join(amended(shlex.split(command), change, RELEASE)) == after


@pytest.mark.parametrize(
    ("words", "name", "left"),
    [
        ("m --swap-space 4 --seed 1", "--swap-space", "m --seed 1"),
        ("m --swap-space=4 --seed 1", "--swap-space", "m --seed 1"),
        ("m --no-such-flag --seed 1", "--no-such-flag", "m --seed 1"),
        ("m --enforce-eager --seed 1", "--enforce-eager", "m --seed 1"),
        ("m --cudagraph-capture-sizes 1 2 4 --seed 1", "--cudagraph-capture-sizes", "m --seed 1"),
        ("m --port 8000", "--port", "m"),
        ("m", "--port", "m"),
    ],
)
def test_options_that_are_left_out(words: str, name: str, left: str) -> None:
    assert without_option(words.split(), name, RELEASE) == left.split()
