"""What vLLM would take and is still idle, clashing, harmful or dangerous, by code."""

from __future__ import annotations

import pytest

from hardware_db import find_rig
from planner.command.parse import read_command
from planner.diagnosis.check import Check, check_command
from planner.findings import Finding, Severity
from planner.memory.verdict import Answer

NGRAM = '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\''


def checked(text: str, gpu: str = "4090", release: str = "0.33.0") -> Check:
    return check_command(read_command([text], release), find_rig(gpu), offline=True)


def found(check: Check, code: str) -> Finding:
    (finding,) = [each for each in check.findings if each.code == code]
    return finding


WORDS = [  # options, release, code, severity, words of the text or of what mends it
    ("--load-format auto", "0.33.0", "redundant_option", "info", "does anyhow"),
    ("--kv-cache-dtype fp9", "0.32.0", "bad_choice", "error", "fp8_per_token_head"),
    ("--block-size 24", "0.17.1", "bad_choice", "error", "128"),
    ("--max-num-seqs 8 --max-num-seqs 16", "0.33.0", "repeated_option", "warning", "last one"),
    ("--max-num-batched-tokens 8k", "0.9.0", "bad_value", "error", "whole number"),
    ("--max-model-len auto", "0.13.0", "bad_value", "error", "whole number"),
    ("--kv-cache-memory-bytes 4G --gpu-memory-utilization 0.9", "0.33.0", "conflicting_options",
     "warning", "whatever the share"),
    ("--max-cudagraph-capture-size 8 "
     "--compilation-config '{\"max_cudagraph_capture_size\": 16}'", "0.33.0",
     "conflicting_options", "error", "exclude each other"),
    (f"{NGRAM} --spec-tokens 5", "0.33.0", "conflicting_options", "error", "exclude each other"),
    ("--compilation-config '{\"level\": 3}'", "0.18.0", "unknown_key", "error", "write mode"),
    ("--compilation-config '{\"levle\": 3}'", "0.12.0", "ignored_key", "warning", "leave it out"),
    ("--gpu-memory-utilization 0.99", "0.33.0", "high_utilization", "warning", "0.95"),
    ("--api-key sk-1", "0.33.0", "exposed_key", "warning", "VLLM_API_KEY"),
    ("--enforce-eager", "0.33.0", "eager", "warning", "slower"),
    ("--task generate", "0.12.0", "deprecated_option", "warning", "leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "release", "code", "severity", "words"), WORDS)
def test_of_the_words(options: str, release: str, code: str, severity: str, words: str) -> None:
    text = f"vllm serve Qwen/Qwen3-0.6B {options}"
    finding = found(checked(text, release=release), code)
    assert finding.severity is Severity(severity)
    assert words in f"{finding.text} {finding.fix}"


@pytest.mark.parametrize(
    ("variable", "release", "code", "words"),
    [
        ("VLLM_ATTENTION_BACKEND=FLASHINFER", "0.33.0", "unknown_variable", "--attention-backend"),
        ("VLLM_USE_V1=1", "0.33.0", "unknown_variable", "the only one"),
        ("VLLM_NO_SUCH=1", "0.33.0", "unknown_variable", "leave it out"),
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", "0.33.0", "beyond_context", "nonsense"),
        ("VLLM_SERVER_DEV_MODE=1", "0.33.0", "open_routes", "never where others"),
    ],
)
def test_of_the_environment(variable: str, release: str, code: str, words: str) -> None:
    finding = found(checked(f"{variable} vllm serve Qwen/Qwen3-0.6B", release=release), code)
    assert words in f"{finding.text} {finding.fix}"
    assert finding.severity is Severity.WARNING


def test_a_length_beyond_the_models_own_is_a_risk_if_it_is_let_through() -> None:
    text = "vllm serve Qwen/Qwen3-0.6B --max-model-len 50000"
    assert found(checked(text, "h100-sxm"), "max_model_len").severity is Severity.ERROR
    overruled = checked(f"VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 {text}", "h100-sxm")
    assert overruled.answer is Answer.YES
    assert found(overruled, "beyond_context").severity is Severity.WARNING


def test_a_variable_that_the_release_reads_is_not_mentioned() -> None:
    check = checked(
        "VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve Qwen/Qwen3-0.6B", "4090", "0.12.0"
    )
    assert "unknown_variable" not in {finding.code for finding in check.findings}


HARDWARE = [  # command, GPU, code, words
    ("vllm serve Qwen/Qwen3-8B-FP8 --max-model-len 4096", "a100-80g", "weight_only", "8.9"),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 4096 --kv-cache-dtype fp8", "3090",
     "emulated_kv_cache", "costs time"),
    ("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096", "t4", "no_bfloat16", "float16"),
    ("vllm serve Qwen/Qwen3-0.6B --dtype bfloat16 --max-model-len 4096", "t4", "dtype", "half"),
    ("vllm serve Qwen/Qwen3-30B-A3B --enable-expert-parallel", "h100-sxm", "useless_option",
     "one rank"),
    ("vllm serve Qwen/Qwen3-0.6B --disable-custom-all-reduce", "4090", "useless_option",
     "one GPU"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "gpu", "code", "words"), HARDWARE)
def test_of_the_hardware(command: str, gpu: str, code: str, words: str) -> None:
    assert words in found(checked(command, gpu), code).text


@pytest.mark.parametrize("gpu", ["h100-sxm", "4090"])
def test_formats_that_the_gpu_computes_in_are_no_finding(gpu: str) -> None:
    check = checked("vllm serve Qwen/Qwen3-8B-FP8 --max-model-len 4096 --kv-cache-dtype fp8", gpu)
    codes = {finding.code for finding in check.findings}
    assert not codes & {"weight_only", "emulated_kv_cache", "no_bfloat16"}


@pytest.mark.parametrize(
    ("sizes", "harmful"),
    [
        ("--max-cudagraph-capture-size 6", True),  # for six requests, as it was meant
        ("--max-cudagraph-capture-size 24", False),
        ("--cudagraph-capture-sizes 1 2 4 6", True),
        ("--compilation-config '{\"cudagraph_capture_sizes\": [1, 6]}'", True),
        ("", False),
    ],
)
def test_graph_sizes_are_tokens(sizes: str, harmful: bool) -> None:
    """With three drafted tokens a request brings four: six of them are 24."""
    check = checked(f"vllm serve Qwen/Qwen3-0.6B --max-num-seqs 6 {NGRAM} {sizes}")
    codes = {finding.code for finding in check.findings}
    assert ("graphs_in_sequences" in codes) == harmful
    if harmful:
        assert "--max-cudagraph-capture-size 24" in (found(check, "graphs_in_sequences").fix or "")


@pytest.mark.parametrize(
    ("benchmark", "useless"),
    [
        ("vllm bench serve --model x --dataset-name random", True),
        ("vllm bench serve --model x --num-prompts 10", True),  # random is the default
        ("vllm bench serve --model x --dataset-name sharegpt", False),
        ("vllm bench serve --dataset-name=sharegpt", False),
        ("curl localhost:8000/health", False),
    ],
)
def test_drafts_are_not_timed_with_random_tokens(benchmark: str, useless: bool) -> None:
    for text in (f"vllm serve Qwen/Qwen3-0.6B {NGRAM} &\n{benchmark}",):
        codes = {finding.code for finding in checked(text).findings}
        assert ("random_benchmark" in codes) == useless
    plain = checked(f"vllm serve Qwen/Qwen3-0.6B &\n{benchmark}")
    assert "random_benchmark" not in {finding.code for finding in plain.findings}


@pytest.mark.parametrize(("method", "plain"), [("deepseek_mtp", "mtp"), ("qwen3_next_mtp", "mtp")])
def test_mtp_by_the_name_of_a_family(method: str, plain: str) -> None:
    config = f'{{"method": "{method}", "num_speculative_tokens": 1}}'
    command = read_command([f"vllm serve a/b --speculative-config '{config}'"], "0.33.0")
    assert command.config.speculative_config is not None
    assert command.config.speculative_config.method == plain


@pytest.mark.parametrize(("method", "tokens"), [("mtp", 1), ("suffix", 24)])
def test_tokens_that_vllm_takes_from_the_draft(method: str, tokens: int) -> None:
    command = read_command(
        [f'vllm serve a/b --speculative-config \'{{"method": "{method}"}}\''], "0.33.0"
    )
    assert command.config.speculative_config is not None
    assert command.config.speculative_config.num_speculative_tokens == tokens
    assert [finding.severity for finding in command.findings] == [Severity.INFO]


def test_a_plain_command_has_no_finding() -> None:
    check = checked("vllm serve Qwen/Qwen3-0.6B --max-model-len 8192 --max-num-seqs 64 --port 8000")
    assert check.findings == ()
