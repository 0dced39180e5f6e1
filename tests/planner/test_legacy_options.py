"""Every option that a release had and the newest has not: a finding with what to write instead.

The walk is over the tables of the releases and over the options of speculation of the years before
`--speculative-config`. That what is written instead means the same is said case by case.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from planner import EngineConfig
from planner.command.parse import ServeCommand, read_command
from planner.engine.flags import accepts_flag
from planner.engine.options import Takes, known_option
from planner.engine.releases import find_release, known_releases, read_data
from planner.engine.replacements import speculative_options
from planner.engine_config import SpeculativeConfig
from planner.findings import Finding, Severity

NEWEST = find_release(known_releases()[-1])
LEGACY = [
    name
    for name in read_data("flags.json")["flags"]
    if not accepts_flag(NEWEST, name) and name != "-O"  # vLLM's parser rewrites it itself
]
OLDER = (
    "--speculative-model", "--num-speculative-tokens", "--speculative-draft-tensor-parallel-size",
    "--speculative-model-quantization", "--speculative-max-model-len",
    "--speculative-disable-by-batch-size", "--speculative-disable-mqa-scorer",
    "--spec-decoding-acceptance-method",
)  # fmt: skip
VALUES = {
    "--task": "embed",
    "--cuda-graph-sizes": "64",
    "int": "2",
    "float": "2",
    "json": '{"factor": 2}',
    "bool": "true",
}


def checked(options: str, release: str = NEWEST.name) -> ServeCommand:
    return read_command([f"vllm serve Qwen/Qwen3-8B {options}"], release)


def about(command: ServeCommand, name: str) -> list[Finding]:
    return [f for f in command.findings if name in f.text and f.severity is Severity.ERROR]


def test_there_is_something_to_walk_over() -> None:
    assert len(LEGACY) == 64
    assert set(OLDER) < set(speculative_options())


@pytest.mark.parametrize("name", LEGACY)
def test_an_option_that_is_gone_says_what_took_its_place(name: str) -> None:
    option = known_option(name)
    assert option is not None
    words = [name]
    if option.takes is not Takes.SWITCH:
        words.append(VALUES.get(name) or VALUES.get(option.type or "", "x"))
    command = checked(shlex.join(words))
    (finding,) = about(command, name)
    assert finding.code == "unknown_option"
    assert "it went with 0." in finding.text
    assert finding.fix is not None
    instead, _, span = finding.fix.partition("; vLLM has it from ")
    assert span.partition(" to ")[1]
    if instead == "leave it out":  # then the text says why
        assert ": " in finding.text
        assert command.config == EngineConfig()
    else:  # a command with it has nothing wrong
        fixed = checked(instead.removeprefix("write "))
        assert [f for f in fixed.findings if f.severity is Severity.ERROR] == []
        assert fixed.config == command.config


@pytest.mark.parametrize("name", OLDER)
def test_older_options_of_speculation(name: str) -> None:
    value = "" if "mqa-scorer" in name else "ngram" if name == "--speculative-model" else "2"
    (finding,) = about(checked(f"{name} {value}"), name)[:1]
    assert finding.code == "option_gone"
    assert finding.fix
    assert "--speculative-config" in finding.fix or (
        finding.fix == "leave it out" and len(finding.text) > 40
    )


def test_a_whole_command_of_old_becomes_the_json_form() -> None:
    command = checked(
        "--speculative-model meta-llama/Llama-3.2-1B --num-speculative-tokens 5 "
        "--speculative-draft-tensor-parallel-size 1"
    )
    (finding,) = [f for f in command.findings if f.code == "option_gone"]
    assert finding.fix == (
        '--speculative-config \'{"model": "meta-llama/Llama-3.2-1B", '
        '"num_speculative_tokens": 5, "draft_tensor_parallel_size": 1}\''
    )
    assert command.config.speculative_config == SpeculativeConfig(
        "draft_model", 5, "meta-llama/Llama-3.2-1B", 1
    )


INSTEAD: list[tuple[str, str, str]] = [
    ("--task embed", "0.33.0", "--runner pooling --convert embed"),
    ("--task generate", "0.33.0", "leave it out"),
    ("--rope-scaling '{\"rope_type\": \"yarn\", \"factor\": 4.0}'", "0.33.0",
     '--hf-overrides \'{"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}\''),
    ("--rope-theta 10000", "0.11.2", "--hf-overrides '{\"rope_theta\": 10000}'"),
    ("--cuda-graph-sizes 64", "0.33.0", "--max-cudagraph-capture-size 64"),
    ("--cuda-graph-sizes 1 2 4", "0.33.0", "--cudagraph-capture-sizes 1 2 4"),
    ("--disable-mm-preprocessor-cache", "0.33.0", "--mm-processor-cache-gb 0"),
    ("--enable-multimodal-encoder-data-parallel", "0.33.0", "--mm-encoder-tp-mode data"),
    ("--guided-decoding-backend xgrammar", "0.33.0",
     "--structured-outputs-config '{\"backend\": \"xgrammar\"}'"),
    ("--eplb-window-size 100", "0.33.0", "--eplb-config '{\"window_size\": 100}'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "release", "instead"), INSTEAD, ids=[i[0] for i in INSTEAD])
def test_what_to_write_instead(options: str, release: str, instead: str) -> None:
    (finding,) = [f for f in checked(options, release).findings if f.severity is Severity.ERROR]
    assert finding.fix is not None
    assert finding.fix.startswith(("write " if instead[0] == "-" else "") + instead + ";")


@pytest.mark.parametrize(
    ("options", "release", "fix"),
    [
        ("--attention-backend FLASHINFER", "0.11.0", "vLLM has it from 0.13.0 to 0.33.0"),
        ("--kv-cache-memory-bytes 1G", "0.9.2", "vLLM has it from 0.10.2 to 0.33.0"),
        ("--task embed", "0.12.0", "write --runner pooling --convert embed"),
    ],
)
def test_too_new_and_deprecated(options: str, release: str, fix: str) -> None:
    (finding,) = [f for f in checked(options, release).findings if f.code != "not_planned"]
    assert finding.fix == fix
    deprecated = finding.severity is Severity.WARNING
    assert finding.code == ("deprecated_option" if deprecated else "unknown_option")


GONE_KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"method": "eagle", "speculative_token_tree": "[(0,)]"}, "unknown_key", "chains only"),
    ({"method": "ngram", "disable_by_batch_size": 8}, "unknown_key", "per_batch_size"),
    ({"method": "ngram", "tensor_parallel_size": 1}, "", ""),
    ({"method": "medusa", "model": "a/b"}, "no_method", "never as a tree"),
    ({"method": "mlp_speculator", "model": "a/b"}, "no_method", "ran last in 0.9.2"),
    ({"method": "eagle2", "model": "a/b"}, "no_method", "in a chain"),
]


@pytest.mark.parametrize(("config", "code", "words"), GONE_KEYS, ids=[str(k[0]) for k in GONE_KEYS])
def test_trees_heads_and_keys_that_are_gone(config: dict[str, Any], code: str, words: str) -> None:
    given = json.dumps({**config, "num_speculative_tokens": 3})
    found = checked(f"--speculative-config {shlex.quote(given)}").findings
    if not code:  # still a key, there only to be refused
        return
    (finding,) = [f for f in found if f.code == code]
    assert words in f"{finding.text} {finding.fix}"
