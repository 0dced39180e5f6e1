"""The TUI holds no arithmetic: what it shows is what `vplan check --json` prints."""

from __future__ import annotations

import json
import random

from program import Vplan
from tui_driver import Driver, drive

from planner import EngineConfig
from planner.cli.format import chance, gib, short_count
from planner.settings import Settings

_MODELS = (
    "Qwen/Qwen3-8B", "Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B-Instruct",
    "google/gemma-3-12b-it", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B",
)  # fmt: skip
_GPUS = ("rtx-4090", "rtx-3090", "2xrtx-3090", "4xrtx-4090", "h100-sxm", "8xh100-sxm", "t4")
_FLAGS = ("tensor_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
          "gpu_memory_utilization", "kv_cache_dtype")  # fmt: skip


def some_settings(dice: random.Random) -> Settings:
    return Settings(
        dice.choice(_GPUS),
        dice.choice(_MODELS),
        dice.choice(("0.33.0", "0.33.0", "0.19.1", "0.11.0", "0.8.5")),
        EngineConfig(
            tensor_parallel_size=dice.choice((1, 1, 2, 3, 4)),
            max_model_len=dice.choice((None, 2048, 8192, 20000, 32768, 131072)),
            max_num_seqs=dice.choice((None, 16, 64, 1024)),
            max_num_batched_tokens=dice.choice((None, 2048, 8192)),
            gpu_memory_utilization=dice.choice((None, 0.5, 0.85, 0.95)),
            kv_cache_dtype=dice.choice(("auto", "auto", "fp8")),
            enforce_eager=dice.random() < 0.2,
        ),
    )


def as_command(settings: Settings) -> list[str]:
    words = ["vllm", "serve", settings.model]
    for name in _FLAGS:
        value = getattr(settings.config, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return [*words, "--enforce-eager"] if settings.config.enforce_eager else words


def test_fifty_settings_show_what_check_prints(vplan_here: Vplan) -> None:
    dice = random.Random(8)
    many = [some_settings(dice) for _ in range(50)]
    printed = []
    for settings in many:
        run = vplan_here(
            "check", "--gpu", settings.gpu, "--vllm-version", settings.vllm, "--json", "--",
            *as_command(settings),
        )  # fmt: skip
        printed.append(json.loads(run.out))
    assert {each["answer"] for each in printed} == {"yes", "no", "risky"} or len(
        {each["answer"] for each in printed}
    ) == 2

    async def script(driver: Driver) -> None:
        for settings, check in zip(many, printed, strict=True):
            driver.plan.change(settings)
            await driver.until(lambda: driver.plan.outcome is not None)
            outcome = driver.plan.outcome
            assert outcome is not None
            assert outcome.settings == settings
            await driver.pilot.pause()
            compare(driver, check)

    drive(script, size=(200, 60))


def compare(driver: Driver, check: dict[str, object]) -> None:
    outcome = driver.plan.outcome
    assert outcome is not None
    assert outcome.answer.value == check["answer"]
    assert outcome.chance_of_refusal == check["chance_of_refusal"]
    memory = check["memory"]
    verdict = driver.text("#verdict")
    if memory is None:
        assert outcome.memory is None
        assert verdict.startswith("✘ does not start")
        return
    assert isinstance(memory, dict)
    assert outcome.memory is not None
    assert f"chance of refusal: {chance(memory['starts']['chance_of_refusal'])}" in verdict
    tokens = memory["kv_tokens"]["value"]
    assert outcome.memory.kv_tokens.value == tokens
    assert driver.text("KvCard").startswith(f"{short_count(tokens)} ")
    held = memory["max_concurrency"]["value"]
    assert f"\n{held:,.1f} " in driver.text("KvCard") or tokens == held == 0
    rank = min(memory["ranks"], key=lambda each: each["kv_cache"]["value"])
    legend = driver.text("#vram")
    for part in (rank["weights"]["total"], rank["activation"], rank["non_torch"]):
        assert gib(part["value"]) in legend
    cache = rank["kv_cache"]["value"]
    assert gib(abs(cache)) in legend
    assert ("missing" in legend) == (cache < 0)
    assert ("KV cache" in legend) == (cache > 0)
