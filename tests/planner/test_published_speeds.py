"""Speeds that others measured with vLLM, against the printed band.

The bands are meant for releases of the V1 engine; what is known to lie outside is marked, with why.
"""

from __future__ import annotations

import pytest
from launches import plan

from planner import SpeedEstimate, Workload, predict_speed
from planner.speed.bands import time_band
from planner.speed.load import LoadModel

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def predicted(
    model: str, rig: str, workload: Workload, release: str, ranks: int = 1, kv: str = "auto"
) -> SpeedEstimate:
    memory = plan(
        model, rig, release, tensor_parallel_size=ranks, kv_cache_dtype=kv,
        max_model_len=workload.total_tokens + 64,
    )  # fmt: skip
    return predict_speed(memory, workload)


def inside(measured: float, speed: SpeedEstimate) -> bool:
    return speed.per_user.low <= measured <= speed.per_user.high


@pytest.mark.parametrize(
    # vLLM blog of 2026-04-22 on fp8 KV caches (vllm-project/vllm-project.github.io@c3a01c4), vLLM
    # 0.19.1, one request: tokens/s from its fits of the time between tokens to the context, which
    # are 4.37e-5 ms x tokens + 6.44 ms (H100) and 1.80e-5 ms x tokens + 3.93 ms (B200).
    ("rig", "context", "measured"),
    [("h100-sxm", 1_000, 154.2), ("h100-sxm", 32_000, 127.6), ("h100-sxm", 100_000, 92.5),
     ("b200", 1_000, 253.3), ("b200", 32_000, 221.9), ("b200", 100_000, 174.5)],
)  # fmt: skip
def test_llama_8b_by_length_of_context(rig: str, context: int, measured: float) -> None:
    speed = predicted(LLAMA_8B, rig, Workload(context - 64, 128), "0.19.1")
    assert inside(measured, speed), speed.per_user


@pytest.mark.parametrize(
    # The same with an fp8 cache: 2.37e-5 x + 6.58 and 9.72e-6 x + 3.96.
    ("rig", "context", "measured"),
    [("h100-sxm", 1_000, 151.4), ("h100-sxm", 32_000, 136.3), ("b200", 1_000, 251.9),
     ("b200", 32_000, 234.1), ("b200", 100_000, 202.8), ("h100-sxm", 100_000, 111.7)],
)  # fmt: skip
def test_llama_8b_with_an_fp8_cache(rig: str, context: int, measured: float) -> None:
    speed = predicted(LLAMA_8B, rig, Workload(context - 64, 128), "0.19.1", kv="fp8")
    assert inside(measured, speed), speed.per_user


def test_llama_8b_on_h100_in_april_2025() -> None:
    """vllm-project/vllm#16937, V1 engine: 133 tokens/s for one request of 80 + 256 tokens."""
    assert inside(133, predicted(LLAMA_8B, "h100-sxm", Workload(80, 256), "0.8.5"))


@pytest.mark.parametrize(
    # kyuz0/amd-r9700-vllm-toolboxes benchmarks@18a88f1, December 2025, release not recorded;
    # requests at a time estimated from the rate.
    ("model", "rig", "workload", "measured"),
    [(LLAMA_8B, "4090", Workload(210, 216, 3), 56.56),
     (LLAMA_8B, "4090", Workload(203, 211, 15), 49.33),
     (LLAMA_8B, "rtx-5000-ada", Workload(210, 216, 6), 32.48),
     (LLAMA_8B, "rtx-5000-ada", Workload(203, 211, 25), 28.7),
     ("Qwen/Qwen3-14B-FP8", "4090", Workload(213, 224, 4), 47.3),
     ("Qwen/Qwen3-14B-FP8", "4090", Workload(204, 216, 20), 38.79),
     ("Qwen/Qwen3-14B-FP8", "rtx-5000-ada", Workload(213, 224, 6), 29.28),
     pytest.param(
         "Qwen/Qwen3-14B-FP8", "5090", Workload(213, 224, 4), 43.37,
         marks=pytest.mark.xfail(
             strict=True,
             reason="slower than a 4090 with 1.8 times the bandwidth: the FP8 kernels for compute "
             "capability 12.0 of that time",
         ),
     )],
)  # fmt: skip
def test_desktop_cards_under_light_load(
    model: str, rig: str, workload: Workload, measured: float
) -> None:
    speed = predicted(model, rig, workload, "0.12.0")
    assert inside(measured, speed), speed.per_user


@pytest.mark.parametrize(
    # QwenLM/Qwen3 docs/source/benchmark/speed_benchmark.rst@a912d23: A100 80 GB, one request, 1
    # token in, 2,048 out, vLLM 0.6.3, which spends about 2.4 ms of each step on the host.
    ("model", "ranks", "measured"),
    [("Qwen/Qwen2.5-32B-Instruct", 1, 22.13),
     ("Qwen/Qwen2.5-14B-Instruct", 1, 46.3),
     ("Qwen/Qwen2.5-72B-Instruct-AWQ", 2, 44.3),
     ("Qwen/Qwen2.5-1.5B-Instruct", 1, 183.33),
     ("Qwen/Qwen2.5-7B-Instruct", 1, 84.28)],
)  # fmt: skip
def test_an_older_engine_by_its_own_constants(model: str, ranks: int, measured: float) -> None:
    rig = "a100-sxm4-80gb" if ranks == 1 else f"{ranks}xa100-sxm4-80gb"
    memory = plan(model, rig, "0.8.5", tensor_parallel_size=ranks, max_model_len=2113)
    load = LoadModel.of(memory, Workload(1, 2048), legacy=True).at(1)
    band = time_band(memory, 1)
    assert band.low * load.tpot <= 1 / measured <= band.high * load.tpot, load.per_user
    newer = predict_speed(memory, Workload(1, 2048)).per_user.value
    assert newer > load.per_user
