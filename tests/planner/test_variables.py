"""Environment variables that stop a launch: values that cannot be read, and the model runner."""

from __future__ import annotations

import pytest

from hardware_db import find_rig
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig
from planner.command.parse import read_command
from planner.diagnosis.check import Check, check_command
from planner.diagnosis.fix import fix_command
from planner.engine.defaults import resolve
from planner.engine.device import device_facts
from planner.engine.releases import find_release
from planner.engine_config import SpeculativeConfig
from planner.findings import Severity
from planner.memory.verdict import Answer

MODEL = "Qwen/Qwen3-0.6B"
V2 = "VLLM_USE_V2_MODEL_RUNNER"


def checked(
    variables: str,
    release: str = "0.33.0",
    gpu: str = "4090",
    options: str = "",
    model: str = MODEL,
) -> Check:
    text = f"{variables} vllm serve {model} --max-model-len 4096 {options}"
    return check_command(read_command([text], release), find_rig(gpu), offline=True)


def drafting(method: str) -> str:
    return f'--speculative-config \'{{"method": "{method}", "num_speculative_tokens": 3}}\''


def errors(check: Check) -> dict[str, str]:
    found = (each for each in check.findings if each.severity is Severity.ERROR)
    return {each.code: each.text for each in found}


@pytest.mark.parametrize(
    ("variable", "words"),
    [  # each as int(), float() or env_with_choices() of vllm/envs.py refuse it
        (f"{V2}=true", "no whole number"),
        (f"{V2}=", "no whole number"),
        ("VLLM_AUDIO_FETCH_TIMEOUT=10.5", "no whole number"),
        ("VLLM_LOG_STATS_INTERVAL=often", "no number"),
        ("VLLM_PORT=tcp://10.0.0.1:8000", "no whole number"),
        ("VLLM_KV_CACHE_LAYOUT=nhd", "none of"),
        ("VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS=container,shell", "none of"),
        ("VERBOSE=yes", "no whole number"),
    ],
)
def test_values_that_vllm_cannot_read(variable: str, words: str) -> None:
    assert words in errors(checked(variable))["bad_variable"]


@pytest.mark.parametrize(
    "variable",
    ["VLLM_AUDIO_FETCH_TIMEOUT=10", "VLLM_LOG_STATS_INTERVAL=0.5", "VLLM_KV_CACHE_LAYOUT=NHD",
     "VLLM_FLOAT32_MATMUL_PRECISION=HIGHEST", "VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS=container,",
     "VLLM_ALLOW_LONG_MAX_MODEL_LEN=true", "VLLM_ROCM_USE_AITER=True", f"{V2}=1", f"{V2}=0"],
)  # fmt: skip
def test_values_that_it_reads(variable: str) -> None:
    assert not errors(checked(variable))


def test_older_releases_read_a_variable_where_they_need_it() -> None:
    check = checked("VLLM_AUDIO_FETCH_TIMEOUT=abc", "0.11.0")
    assert check.answer is Answer.YES
    assert "bad_variable" in {each.code for each in check.findings}


@pytest.mark.parametrize(
    ("variable", "release", "severity"),
    [
        # `enable_envs_cache` of vllm/envs.py is there from 0.11.1 on.
        ("VLLM_AUDIO_FETCH_TIMEOUT=abc", "0.11.1", Severity.ERROR),
        ("VLLM_AUDIO_FETCH_TIMEOUT=abc", "0.8.5", Severity.WARNING),
        # `try_v1 = envs.VLLM_USE_V1 or ...` of engine/arg_utils.py, and modules' own lines.
        ("VLLM_USE_V1=true", "0.10.2", Severity.ERROR),
        ("VLLM_USE_V1=0", "0.10.2", None),
        ("VLLM_SERVER_DEV_MODE=yes", "0.8.5", Severity.ERROR),
        ("VLLM_CONFIGURE_LOGGING=false", "0.11.0", Severity.ERROR),
        ("VLLM_LOG_BATCHSIZE_INTERVAL=never", "0.11.0", Severity.ERROR),
        # Gone before 0.12, and read otherwise before or after a release.
        ("VLLM_SKIP_DEEP_GEMM_WARMUP=no", "0.10.2", Severity.WARNING),
        ("VLLM_KV_CACHE_LAYOUT=nhd", "0.10.2", None),
        ("VLLM_KV_CACHE_LAYOUT=nhd", "0.11.0", Severity.WARNING),
        ("VLLM_DISABLE_COMPILE_CACHE=true", "0.11.0", Severity.WARNING),
        ("VLLM_DISABLE_COMPILE_CACHE=true", "0.32.0", Severity.ERROR),
    ],
)
def test_what_older_releases_make_of_a_value(
    variable: str, release: str, severity: Severity | None
) -> None:
    found = [each for each in checked(variable, release).findings if each.code == "bad_variable"]
    assert [each.severity for each in found] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("release", "starts"), [("0.33.0", False), ("0.32.0", False), ("0.22.0", False),
                            ("0.20.0", True), ("0.10.0", True)]
)  # fmt: skip
def test_the_second_runner_needs_triton(release: str, starts: bool) -> None:
    """ "Model Runner V2 requires Triton." of gpu_worker.py and config/vllm.py."""
    check = checked(f"{V2}=1", release, "cpu")
    assert ("model_runner" not in errors(check)) is starts
    assert "model_runner" not in errors(checked("", release, "cpu"))


# release, method, whether the second runner drafts so by _get_v2_model_runner_unsupported_features
DRAFTS = [
    ("0.33.0", "ngram", True), ("0.32.0", "ngram", True), ("0.31.0", "ngram", False),
    ("0.25.1", "ngram", False), ("0.33.0", "suffix", False), ("0.20.0", "ngram", False),
]  # fmt: skip


@pytest.mark.parametrize(("release", "method", "able"), DRAFTS)
def test_drafts_that_the_second_runner_does_not_make(release: str, method: str, able: bool) -> None:
    """Asked for it vLLM refuses; left alone it takes the first."""
    found = errors(checked(f"{V2}=1", release, options=drafting(method)))
    assert ("model_runner" not in found) is able
    assert "model_runner" not in errors(checked("", release, options=drafting(method)))
    card = open_bundled("Qwen/Qwen3-0.6B")
    assert card is not None
    config = EngineConfig(speculative_config=SpeculativeConfig(method, 3))
    device = device_facts(find_rig("4090").smallest.gpu)
    usual = find_release(release).at_least("0.22.0")
    resolved = resolve(card, device, config, find_release(release))
    assert resolved.model_runner_v2 is (able and usual)


def test_recurrent_states_came_to_the_second_runner_later() -> None:
    hybrid = "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
    assert "model_runner" in errors(checked(f"{V2}=1", "0.22.0", "h100-sxm", model=hybrid))
    assert "model_runner" not in errors(checked(f"{V2}=1", "0.23.0", "h100-sxm", model=hybrid))


def test_the_variable_chooses_the_runner() -> None:
    for value, is_v2 in (("1", True), ("0", False)):
        for release in ("0.16.0", "0.33.0"):
            memory = checked(f"{V2}={value}", release).memory
            assert memory is not None
            assert memory.config.model_runner_v2 is is_v2


def test_a_fix_leaves_it_out() -> None:
    text = f"{V2}=1 VERBOSE=yes VLLM_NO_USAGE_STATS=1 vllm serve {MODEL} --max-model-len 4096"
    fixed = fix_command(read_command([text], "0.33.0"), find_rig("cpu"), offline=True)
    assert dict(fixed.environ) == {"VLLM_NO_USAGE_STATS": "1"}
    assert not errors(fixed.check)


@pytest.mark.parametrize(
    ("variable", "planned"),
    [("VLLM_MLA_DISABLE=1", False), ("VLLM_MLA_DISABLE=0", True),
     ("VLLM_PP_LAYER_PARTITION=20,8", False),
     ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0", False),
     ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1", True)],
)  # fmt: skip
def test_what_no_plan_knows_is_said(variable: str, planned: bool) -> None:
    codes = {each.code for each in checked(variable).findings}
    assert ("not_planned" not in codes) is planned
