"""Which options and values each release's parser takes.

The facts are what `vllm serve` of each release answered when its own argument parser was built
and dumped; the tests hold the turning points, and the number of spellings as a checksum.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from planner import EngineConfig
from planner.engine.flags import accepts_choice, accepts_flag, option, unknown_option
from planner.engine.releases import find_release, known_releases, read_data

ALWAYS = [
    "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size",
    "--enable-expert-parallel", "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens",
    "--gpu-memory-utilization", "--kv-cache-dtype", "--block-size", "--dtype", "--quantization",
    "--enforce-eager", "--enable-prefix-caching", "--no-enable-prefix-caching",
    "--enable-chunked-prefill", "--speculative-config", "--compilation-config",
    "--num-gpu-blocks-override", "--served-model-name", "--host", "--port", "--seed",
]  # fmt: skip
# option: (last release without it, first with it)
APPEARS = {
    "--cuda-graph-sizes": ("0.8.5", "0.9.0"), "--async-scheduling": ("0.9.2", "0.10.0"),
    "--disable-hybrid-kv-cache-manager": ("0.9.0", "0.9.1"),
    "--kv-cache-memory-bytes": ("0.10.1.1", "0.10.2"),
    "--decode-context-parallel-size": ("0.10.1.1", "0.10.2"),
    "--mm-encoder-tp-mode": ("0.10.1.1", "0.10.2"), "--runner": ("0.10.0", "0.10.1.1"),
    "--kv-offloading-size": ("0.11.0", "0.11.1"),
    "--max-cudagraph-capture-size": ("0.11.0", "0.11.1"),
    "--optimization-level": ("0.11.2", "0.12.0"), "--attention-backend": ("0.12.0", "0.13.0"),
    "--mamba-cache-mode": ("0.14.1", "0.15.1"), "--moe-backend": ("0.16.0", "0.17.0"),
    "--language-model-only": ("0.16.0", "0.17.0"), "--performance-mode": ("0.16.0", "0.17.0"),
    "--kv-cache-dtype-skip-layers": ("0.18.1", "0.19.0"), "--spec-method": ("0.21.0", "0.22.0"),
    "--mm-ipc-gpu-memory-gb": ("0.24.0", "0.25.0"), "--max-num-active-seqs": ("0.30.0", "0.31.0"),
    "--disable-prefix-caching": ("0.32.0", "0.33.0"),
}  # fmt: skip
# option: (last release with it, first without it)
VANISHES = {
    "--device": ("0.9.2", "0.10.0"), "--num-scheduler-steps": ("0.10.0", "0.10.1.1"),
    "--rope-scaling": ("0.11.0", "0.11.1"), "--guided-decoding-backend": ("0.11.2", "0.12.0"),
    "--task": ("0.12.0", "0.13.0"), "--cuda-graph-sizes": ("0.12.0", "0.13.0"),
    "--swap-space": ("0.17.1", "0.18.0"), "--max-num-partial-prefills": ("0.26.0", "0.27.0"),
    "--calculate-kv-scales": ("0.27.1", "0.28.0"),
}  # fmt: skip
# KV cache dtype: first release; none was ever removed
KV_DTYPES = {
    "fp8": "0.8.5", "fp8_e4m3": "0.8.5", "fp8_e5m2": "0.8.5", "fp8_inc": "0.10.0",
    "bfloat16": "0.11.0", "fp8_ds_mla": "0.11.1", "float16": "0.18.0", "nvfp4": "0.20.0",
    "fp8_per_token_head": "0.20.0", "int4_per_token_head": "0.25.0", "ultraquant_4bit": "0.32.0",
}  # fmt: skip
# quantization method: (last release with it, first without it)
METHODS_GONE = {
    "aqlm": ("0.10.0", "0.10.1.1"), "hqq": ("0.14.1", "0.15.1"), "ptpc_fp8": ("0.18.1", "0.19.0"),
    "gguf": ("0.23.0", "0.24.0"), "bitsandbytes": ("0.27.1", "0.28.0"),
}  # fmt: skip
# release: option strings of its parser, long and short, all spellings
SPELLINGS = {
    "0.8.5": 155, "0.9.2": 205, "0.10.2": 235, "0.11.2": 265, "0.12.0": 260, "0.13.0": 264,
    "0.15.1": 285, "0.16.0": 292, "0.18.1": 309, "0.20.2": 326, "0.22.1": 352, "0.24.0": 359,
    "0.26.0": 370, "0.28.0": 384, "0.30.0": 405, "0.31.0": 420, "0.32.0": 428, "0.33.0": 483,
}  # fmt: skip


@pytest.mark.parametrize("name", known_releases())
def test_every_release_has_the_core_options(name: str) -> None:
    release = find_release(name)
    assert [flag for flag in ALWAYS if not accepts_flag(release, flag)] == []


@pytest.mark.parametrize("flag", APPEARS)
def test_options_that_appear(flag: str) -> None:
    without, first = APPEARS[flag]
    assert not accepts_flag(find_release(without), flag)
    assert accepts_flag(find_release(first), flag)


@pytest.mark.parametrize("flag", VANISHES)
def test_options_that_vanish(flag: str) -> None:
    last, without = VANISHES[flag]
    assert accepts_flag(find_release(last), flag)
    assert not accepts_flag(find_release(without), flag)


def test_an_option_can_come_back() -> None:
    """0.33.0 took the name as the negation of --enable-log-requests."""
    flag = "--disable-log-requests"
    taken = [accepts_flag(find_release(name), flag) for name in ("0.16.0", "0.17.0", "0.33.0")]
    assert taken == [True, False, True]


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_number_of_spellings(name: str) -> None:
    release = find_release(name)
    taken = [flag for flag in read_data("flags.json")["flags"] if accepts_flag(release, flag)]
    assert len(taken) == SPELLINGS[name]


@pytest.mark.parametrize("flag", ["--gpu-memory-util", "--max_model_len", "--max-modell-len", ""])
def test_prefixes_and_misspellings_are_not_option_strings(flag: str) -> None:
    assert not any(accepts_flag(find_release(name), flag) for name in known_releases())


@pytest.mark.parametrize("dtype", KV_DTYPES)
def test_kv_cache_dtypes(dtype: str) -> None:
    first = KV_DTYPES[dtype]
    for name in known_releases():
        release = find_release(name)
        assert accepts_choice(release, "kv_cache_dtype", dtype) == release.at_least(first)


@pytest.mark.parametrize("method", METHODS_GONE)
def test_quantization_methods_that_are_gone(method: str) -> None:
    last, without = METHODS_GONE[method]
    assert accepts_choice(find_release(last), "quantization", method)
    assert not accepts_choice(find_release(without), "quantization", method)


def test_the_option_of_a_setting() -> None:
    assert option("max_model_len", 4096) == "--max-model-len"
    assert option("enable_prefix_caching", True) == "--enable-prefix-caching"
    assert option("enable_prefix_caching", False) == "--no-enable-prefix-caching"


def test_settings_that_a_release_has_no_option_for() -> None:
    pinned = EngineConfig(kv_cache_memory_bytes=2**30)
    assert unknown_option(pinned, find_release("0.10.1.1")) == "--kv-cache-memory-bytes"
    assert unknown_option(pinned, find_release("0.10.2")) is None
    assert unknown_option(EngineConfig(), find_release("0.8.5")) is None
    text_only = replace(pinned, language_model_only=True)
    assert unknown_option(text_only, find_release("0.16.0")) == "--language-model-only"
