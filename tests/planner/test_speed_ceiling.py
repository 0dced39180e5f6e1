"""No prediction is faster than the memory can be read, nor than the chip can compute."""

from __future__ import annotations

import pytest
from launches import bundled, plan
from msgspec.structs import replace

from hardware_db import find_rig
from planner import Basis, Requirements, Workload, predict_speed, recommend
from planner.speed.step import MissingFact

# Parameters that every token needs read: all but the embedding table of an untied model. Totals
# from the Hub's safetensors headers; bytes of a parameter no less than the format's bits.
READ = {
    "Qwen/Qwen3-8B": (8_190_735_360 - 151_936 * 4_096) * 2,
    "meta-llama/Llama-3.1-8B-Instruct": (8_030_261_248 - 128_256 * 4_096) * 2,
    "meta-llama/Llama-2-7b-hf": (6_738_415_616 - 32_000 * 4_096) * 2,
    "Qwen/Qwen3-8B-FP8": (8_190_735_360 - 151_936 * 4_096) * 1,
    "Qwen/Qwen3-8B-AWQ": (8_190_735_360 - 151_936 * 4_096) // 2,
    "meta-llama/Llama-3.3-70B-Instruct": (70_553_706_496 - 128_256 * 8_192) * 2,
    "casperhansen/llama-3.3-70b-instruct-awq": (70_553_706_496 - 128_256 * 8_192) // 2,
}
# GB/s of one GPU, as its maker states.
BANDWIDTH = {"4090": 1008, "3090": 936.2, "h100-sxm": 3350, "a100-sxm4-80gb": 2039, "b200": 8000,
             "mi300x": 5300}  # fmt: skip
LAUNCHES = [
    (model, rig, ranks)
    for model in READ
    for rig, ranks in (("4090", 1), ("4090", 2), ("3090", 4), ("h100-sxm", 1), ("h100-sxm", 8),
                       ("a100-sxm4-80gb", 2), ("b200", 1), ("mi300x", 1))
]  # fmt: skip


@pytest.mark.parametrize(("model", "rig", "ranks"), LAUNCHES)
def test_one_user_gets_no_more_than_bandwidth_over_bytes(model: str, rig: str, ranks: int) -> None:
    memory = plan(
        model, f"{ranks}x{rig}", tensor_parallel_size=ranks, max_model_len=4096, dtype="auto"
    )
    limit = BANDWIDTH[rig] * 1e9 * ranks / READ[model]
    for concurrency in (1, 16):
        speed = predict_speed(memory, Workload(1024, 256, concurrency))
        assert 0 < speed.per_user.low < speed.per_user.value < speed.per_user.high
        assert speed.per_user.high <= speed.ceiling_per_user * 1.000001
        assert speed.ceiling_per_user <= limit * 1.01  # the catalogue's bandwidth may be rounded
        assert speed.tpot.low == pytest.approx(1 / speed.per_user.high)
        assert speed.tpot.high == pytest.approx(1 / speed.per_user.low)


@pytest.mark.parametrize("rig", ["4090", "2x3090", "8xh100-sxm", "mi300x", "cpu:64GiB@80"])
@pytest.mark.parametrize("concurrency", [1, 32])
def test_rankings_stay_below_the_ceiling(rig: str, concurrency: int) -> None:
    wanted = Requirements(Workload(1024, 256, concurrency), "chat")
    choices = recommend(find_rig(rig), wanted, vllm="0.33.0").choices
    assert choices
    for choice in choices:
        speed = choice.settled.speed
        assert speed is not None
        assert speed.per_user.high <= speed.ceiling_per_user * 1.000001
        assert speed.total.high <= concurrency * speed.ceiling_per_user * 1.000001


def test_all_users_together_get_no_more_than_the_chip_computes() -> None:
    """A token of Qwen3-8B takes 2 x 7.6e9 operations; an RTX 4090 does 165e12 in 16 bit."""
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=1024, kv_cache_dtype="fp8")
    speed = predict_speed(memory, Workload(16, 256, 128))
    assert speed.total.high < 165e12 / (2 * 7.6e9)
    assert speed.total.value > speed.per_user.value


def test_a_prompt_takes_at_least_its_operations() -> None:
    """2 x 6.95e9 weights that a prompt token meets (no head) x 8,192 tokens at 165e12 a second."""
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=16384)
    speed = predict_speed(memory, Workload(8192, 64))
    assert speed.ttft is not None
    assert speed.ttft.low > 2 * 6.9e9 * 8192 / 165.2e12 * 0.6
    assert speed.ttft.value > 2 * 6.9e9 * 8192 / 165.2e12
    assert speed.ttft.value < 10


def test_longer_contexts_more_users_and_smaller_gpus_are_slower() -> None:
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=32768)

    def speed(prompt: int, users: int, rig: str = "4090") -> float:
        launch = memory if rig == "4090" else plan("Qwen/Qwen3-8B", rig, max_model_len=8192)
        return predict_speed(launch, Workload(prompt, 256, users)).per_user.value

    assert speed(1024, 1) > speed(8192, 1) > speed(30000, 1)
    assert speed(1024, 1) > speed(1024, 4) > speed(1024, 16)
    assert (
        speed(1024, 1, "b200")
        > speed(1024, 1, "h100-sxm")
        > speed(1024, 1)
        > (speed(1024, 1, "l4"))
    )


def test_what_does_not_fit_the_cache_waits() -> None:
    memory = plan("Qwen/Qwen3-8B", "4090", max_model_len=16384)
    speed = predict_speed(memory, Workload(15000, 1000, 64))
    # Half of their answers is there on average.
    assert speed.running == pytest.approx(memory.expected_requests_at(15500))
    assert speed.running < 64
    assert speed.admitted == memory.expected_requests_at(16000) < speed.running
    assert speed.total.value < speed.running * speed.per_user.value
    assert any("wait" in note for note in speed.notes)


def test_without_bandwidth_there_is_no_prediction() -> None:
    memory = plan("Qwen/Qwen3-8B", "custom:24GiB", max_model_len=4096)
    with pytest.raises(MissingFact, match="bandwidth"):
        predict_speed(memory, Workload())


def test_a_basis_is_no_better_than_what_is_known_of_card_and_model() -> None:
    exact = bundled("Qwen/Qwen3-8B")
    assert exact.exact
    known = predict_speed(plan(exact, "4090", max_model_len=4096), Workload())
    assert known.per_user.basis is Basis.CALIBRATED
    strange = predict_speed(plan(exact, "custom:24GiB@1008", max_model_len=4096), Workload())
    assert strange.per_user.basis is Basis.ESTIMATED
    guessed = replace(exact, fidelity=type(exact.fidelity)("estimated"))
    assert predict_speed(plan(guessed, "4090", max_model_len=4096), Workload()).per_user.basis is (
        Basis.ESTIMATED
    )
