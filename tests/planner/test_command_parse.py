"""Pasted commands: what a shell and vLLM's parser make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import EngineConfig, PlanError
from planner.command.invocation import read_invocation, split_text
from planner.command.parse import ServeCommand, read_command
from planner.command.values import human_readable
from planner.engine_config import AUTO_LENGTH, EplbConfig, SpeculativeConfig
from planner.findings import Severity

SERVE = "vllm serve Qwen/Qwen3-8B"


def parsed(text: str, release: str | None = "0.33.0") -> ServeCommand:
    return read_command([text], release)


def codes(text: str, release: str | None = "0.33.0") -> list[str]:
    return [finding.code for finding in parsed(text, release).findings]


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192",
        "$ vllm serve Qwen/Qwen3-8B --max-model-len 8192",
        "vllm serve Qwen/Qwen3-8B \\\n    --max-model-len 8192",
        "vllm serve Qwen/Qwen3-8B \\\r\n  --max-model-len=8192",
        "vllm serve --max-model-len 8192 Qwen/Qwen3-8B",
        "/opt/venv/bin/vllm serve 'Qwen/Qwen3-8B' --max-model-len \"8192\"",
        "CUDA_VISIBLE_DEVICES=0 HF_TOKEN=x vllm serve Qwen/Qwen3-8B --max-model-len 8192",
        "env A=b sudo -E nohup vllm serve Qwen/Qwen3-8B --max-model-len 8192 > log 2>&1 &",
        "export A=b\nvllm serve Qwen/Qwen3-8B --max-model-len 8192  # the big one",
        "cd /models && uv run vllm serve Qwen/Qwen3-8B --max-model-len 8192 | tee log",
        "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --max-model-len 8192",
        "python3 -m vllm.entrypoints.cli.main serve Qwen/Qwen3-8B --max-model-len 8192",
        "docker run --gpus all -v ~/.cache:/root/.cache -p 8000:8000 --ipc=host -it --rm "
        "vllm/vllm-openai:latest --model Qwen/Qwen3-8B --max-model-len 8192",
        "podman run -e A=b --entrypoint x ghcr.io/someone/image vllm serve Qwen/Qwen3-8B "
        "--max-model-len 8192",
        "vllm serve Qwen/Qwen3-8B --max_model_len 8192",
        "vllm serve Qwen/Qwen3-8B --max-model 8192",
    ],
)
def test_the_same_launch_in_many_ways(text: str) -> None:
    command = parsed(text)
    assert command.model == "Qwen/Qwen3-8B"
    assert command.config == EngineConfig(max_model_len=8192)
    assert command.findings == ()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("-tp 2 -pp=3 -dp 4 -ep", {"tensor_parallel_size": 2, "pipeline_parallel_size": 3,
                                   "data_parallel_size": 4, "enable_expert_parallel": True}),
        ("--max-model-len auto", {"max_model_len": AUTO_LENGTH}),
        ("--max-model-len 32k", {"max_model_len": 32000}),
        ("--max-model-len 32K", {"max_model_len": 32768}),
        ("--max-num-batched-tokens 8k", {"max_num_batched_tokens": 8000}),
        ("--kv-cache-memory-bytes 4G", {"kv_cache_memory_bytes": 4 * 2**30}),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("--disable-prefix-caching", {"enable_prefix_caching": False}),
        ("--enforce-eager", {"enforce_eager": True}),
        ("--limit-mm-per-prompt '{\"image\": 0, \"video\": 0}'", {"language_model_only": True}),
        ("--speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 4}'",
         {"speculative_config": SpeculativeConfig("ngram", 4)}),
        ("--speculative-config.method eagle3 --speculative-config.model a/b "
         "--speculative_config.num_speculative_tokens 3",
         {"speculative_config": SpeculativeConfig("eagle3", 3, "a/b")}),
        ("--spec-method mtp --spec-tokens 2", {"speculative_config": SpeculativeConfig("mtp", 2)}),
        ("--eplb-config.num_redundant_experts 16", {"eplb_config": EplbConfig(16)}),
        ("--port 8000 --served-model-name a b c --api-key secret", {}),
        ("--trust-remote-code", {"trust_remote_code": True}),
    ],
)  # fmt: skip
def test_options_as_vllm_reads_them(options: str, settings: dict[str, Any]) -> None:
    command = parsed(f"{SERVE} {options}")
    assert {finding.code for finding in command.findings} <= {"exposed_key", "remote_code"}
    assert command.config == EngineConfig(**settings)


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        ("--max-model-lenn 3", "unknown_option", "--max-model-len"),
        ("--swap-space 4", "unknown_option", "0.17.1"),
        ("--max-num 3", "ambiguous_option", "--max-num-batched-tokens"),
        ("--max-model-len", "missing_value", "--max-model-len"),
        ("--max-num-seqs many", "bad_value", "whole number"),
        ("--max-num-seqs 0", "bad_value", "at least 1"),
        ("--gpu-memory-utilization 1.5", "bad_value", "(0, 1]"),
        ("--enforce-eager=yes", "bad_value", "no value"),
        ("--speculative-config '{oops'", "bad_value", "JSON"),
        ("--speculative-config '{\"method\": \"ngram\"}'", "missing_value", "num_speculative"),
        ("--speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 2, "
         "\"speculative_disable_by_batch_size\": 4}'", "unknown_key", "speculative_disable"),
        ("--num-speculative-tokens 5 --speculative-model a/b", "option_gone",
         '"num_speculative_tokens": 5'),
        ("another/model", "stray_argument", "another/model"),
        ("--hf-overrides '{\"a\": 1}'", "not_planned", "--hf-overrides"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_finding(options: str, code: str, word: str) -> None:
    found = [f for f in parsed(f"{SERVE} {options}").findings if f.code == code]
    assert len(found) == 1
    assert word in f"{found[0].text} {found[0].fix}"
    assert found[0].severity is (Severity.WARNING if code == "not_planned" else Severity.ERROR)


@pytest.mark.parametrize(
    "options",
    ["--distributed-executor-backend []", "--quantization {}", "--quantization '[\"awq\"]'",
     "--cpu-offload-gb 1e400", "--cpu-offload-gb nan", "--gpu-memory-utilization inf",
     """--speculative-config '{"method": "ngram", "num_speculative_tokens": 1e400}'"""],
)  # fmt: skip
def test_values_of_another_type_never_reach_the_plan(options: str) -> None:
    """vLLM's parser takes JSON for some of them, and float() takes what has no end."""
    command = parsed(f"{SERVE} {options}")
    assert command.config == EngineConfig()
    assert [f.code for f in command.findings if f.severity is Severity.ERROR]


def test_one_wrong_option_does_not_hide_the_rest() -> None:
    command = parsed(f"{SERVE} --nonsense 7 --max-model-len 4096 --more-nonsense --seed 3")
    assert command.config == EngineConfig(max_model_len=4096)
    assert [finding.code for finding in command.findings] == ["unknown_option"] * 2


@pytest.mark.parametrize(
    ("option", "first", "last"),
    [("--swap-space 4", "0.8.5", "0.17.1"), ("--kv-cache-memory-bytes 1G", "0.10.2", "0.33.0"),
     ("--task generate", "0.8.5", "0.12.0"), ("--offload-group-size 4", "0.17.0", "0.33.0")],
)  # fmt: skip
def test_options_come_and_go(option: str, first: str, last: str) -> None:
    assert "unknown_option" not in codes(f"{SERVE} {option}", first)
    assert "unknown_option" not in codes(f"{SERVE} {option}", last)
    if first != "0.8.5":
        assert "unknown_option" in codes(f"{SERVE} {option}", "0.8.5")
    if last != "0.33.0":
        assert "unknown_option" in codes(f"{SERVE} {option}", "0.33.0")


@pytest.mark.parametrize(
    ("release", "code"), [("0.9.0", "unknown_key"), ("0.12.0", "ignored_key"),
                          ("0.16.0", "unknown_key")],
)  # fmt: skip
def test_unknown_keys_of_speculation_by_release(release: str, code: str) -> None:
    """An error in 0.8.5 and 0.9.0 and again from 0.16.0; ignored in between."""
    options = '--speculative-config \'{"method":"ngram","num_speculative_tokens":2,"oops":1}\''
    assert codes(f"{SERVE} {options}", release) == [code]


def test_the_image_names_the_release() -> None:
    text = "docker run --gpus all vllm/vllm-openai:v0.19.1 --model Qwen/Qwen3-8B"
    assert parsed(text, None).release.name == "0.19.1"
    assert parsed(text, "0.20.2").release.name == "0.20.2"


def test_a_file_gives_way_to_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(
        "model: Qwen/Qwen3-8B\nmax-model-len: 4096\nenforce-eager: true\nport: 9000\n"
        "tensor_parallel_size: 2\nspeculative-config: {method: ngram, num_speculative_tokens: 3}\n"
    )
    command = parsed(f"vllm serve --config {file} --max-model-len 8192")
    assert command.model == "Qwen/Qwen3-8B"
    assert command.findings == ()
    assert command.config == EngineConfig(
        max_model_len=8192,
        enforce_eager=True,
        tensor_parallel_size=2,
        speculative_config=SpeculativeConfig("ngram", 3),
    )


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: [\n", ""])
def test_a_file_that_holds_no_options(tmp_path: Path, content: str) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(content)
    with pytest.raises(PlanError, match=str(file)):
        parsed(f"vllm serve --config {file}")


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "no vLLM command"), ("ls -l", "no vLLM command"), ("vllm bench serve", "no vLLM command"),
     ("vllm serve", "names no model"), ("vllm serve 'a", "cannot be read"),
     ("vllm serve --config /no/such.yaml", "/no/such.yaml")],
)  # fmt: skip
def test_no_command_at_all(text: str, word: str) -> None:
    with pytest.raises(PlanError, match=word):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("32768", 32768), ("1k", 1000), ("1K", 1024), ("25.6k", 25600), ("2M", 2 * 2**20),
     ("2m", 2_000_000), ("-1", -1)],
)  # fmt: skip
def test_human_readable_numbers(text: str, value: int) -> None:
    assert human_readable(text) == value


@pytest.mark.parametrize("text", ["1.5K", "k", "1kk", "one"])
def test_numbers_that_vllm_does_not_take(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        human_readable(text)


def test_variables_reach_the_launch() -> None:
    words = split_text("VLLM_CPU_KVCACHE_SPACE=8 vllm serve a/b; echo done")
    found = read_invocation(words)
    assert found.variables == {"VLLM_CPU_KVCACHE_SPACE": "8"}
    assert found.arguments == ("a/b",)


PIECES = [
    "vllm", "serve", "a/b", "--", "-", "-tp", "-O3", "--max-model-len", "--speculative-config",
    '{"a": [', '{"method": 3, "num_speculative_tokens": "x"}', "[1, 2]", "--eplb-config", "null",
    "--eplb-config.num_redundant_experts", "--tensor-parallel-size", "1e9", "-1", "True", "=", "",
    "--speculative-model", "--config", "/dev/null", "docker", "run", "-e", "python", "-m", "\\",
    "#", ";", "|", ">", "'", '"', "\x00", "\u202e", "--limit-mm-per-prompt", "0",
    "--kv-cache-dtype", "--limit-mm-per-prompt={}", "--enable-lora",
    "--max-loras=999999999999999999999",
]  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=14))
def test_nothing_that_is_pasted_breaks_it(words: list[str]) -> None:
    for given_words in (words, [" ".join(words)], ["vllm", "serve", "a/b", *words]):
        try:
            command = read_command(given_words, "0.33.0")
        except PlanError:
            continue
        assert all(finding.text for finding in command.findings)


@pytest.mark.parametrize(
    ("ranges", "said"),
    [([[1, 8, 4], [9, 256, 1]], None), ([[9, 256, 1], [1, 8, 4]], None),
     ([[2, 8, 4]], "must begin with a batch of 1"), ([[1, 8, 4], [8, 9, 1]], "no range of its own"),
     ([[1, 8]], "must be a list of"), (7, "must be a list of"), ([], "must begin with")],
)  # fmt: skip
def test_drafted_tokens_by_batch_size(ranges: object, said: str | None) -> None:
    """As vLLM 0.33.0's `validate_and_normalize_dynamic_sd_schedule` reads them."""
    config = {"method": "ngram", "num_speculative_tokens": 4,
              "num_speculative_tokens_per_batch_size": ranges}  # fmt: skip
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--speculative-config", json.dumps(config)]
    command = read_command(words, "0.33.0")
    if said is None:
        speculative = command.config.speculative_config
        assert speculative is not None
        assert speculative.num_speculative_tokens_per_batch_size == ((1, 8, 4), (9, 256, 1))
        assert hash(command.config)
    else:
        assert any(said in finding.text for finding in command.findings)
