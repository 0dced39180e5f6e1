"""Ways out for a model that does not fit: Llama-3.3-70B-Instruct on two RTX 4090.

By hand, for each of the two GPUs, in GiB (2^30 bytes). The model has 70,553,706,496 parameters, of
which 128,256 x 8,192 = 1,050,673,152 are the embedding and as many the output head; a token's keys
and values take 80 layers x 2 x 8 heads x 128 x 2 bytes = 327,680 bytes, half of it on each GPU.

    vLLM asks for 0.92 x 23.63                                            21.74
    weights, bf16: 70.554e9 x 2 / 2                                       65.71
    weights, FP8: (70.554e9 - 2.101e9) x 1 / 2 + 2.101e9 x 2 / 2          33.83
    beside them, whatever the format:
      CUDA graphs, 51 sizes: 0.10 + 51 x (0.00627 + 80 x 0.000265)         1.50
      outside torch, two ranks over PCIe                                   0.60
      sampler, 256 rows x 128,256: (10 + 4 + 1/8) bytes                    0.43
      one batch of hidden states, 2,048 x 8,192 x 2 bytes                  0.03
    the cache of one request of 16,384 tokens: 16,384 x 327,680 / 2        2.50
"""

from __future__ import annotations

from functools import cache

import pytest
from launches import bundled
from msgspec.structs import replace

from hardware_db import find_rig
from planner import Requirements, Settled, Unfit, Workload, settle
from planner.engine.releases import find_release
from planner.recommendation.alternatives import Alternatives, Checkpoint, find_alternatives

GIB = 2**30
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
WANTED = Requirements(Workload(1024, 384), "chat")
ASKED = 0.92 * 23.63
BESIDE = 1.50 + 0.60 + 128256 * 8192 / 2**30 + 0.1 + 0.03  # the embeddings twice at first
CACHE = 2.50
WEIGHTS = {"16bit": 65.71, "fp8": 33.83, "w8a8": 33.83}


@cache
def found() -> Alternatives:
    return find_alternatives(bundled(MODEL), find_rig("2x4090"), WANTED, find_release("0.33.0"))


def by_format() -> dict[str, Checkpoint]:
    return {checkpoint.card.format_kind: checkpoint for checkpoint in found().checkpoints}


def test_bf16_cannot_fit_by_49_gib_on_each_gpu() -> None:
    result = settle(bundled(MODEL), find_rig("2x4090"), WANTED, find_release("0.33.0"))
    assert isinstance(result, Unfit)
    excess = WEIGHTS["16bit"] + BESIDE + CACHE - ASKED  # 49.0
    assert result.excess_bytes / GIB == pytest.approx(excess, rel=0.02)
    assert result.nearest is not None
    # Before any cache it is 2.5 less, which is what the reason says.
    stated = float(result.reason.partition(" GiB too much")[0].rpartition(" ")[2])
    assert stated == pytest.approx(excess - CACHE, rel=0.02)


@pytest.mark.parametrize("weight_format", ["fp8", "w8a8"])
def test_eight_bits_cannot_fit_either(weight_format: str) -> None:
    result = by_format()[weight_format].result
    assert isinstance(result, Unfit)
    needed = WEIGHTS[weight_format] + BESIDE + CACHE  # 38.9
    assert result.excess_bytes / GIB + ASKED == pytest.approx(needed, rel=0.02)


def test_four_bits_fit_with_the_context_asked_for() -> None:
    """AWQ: 68.45e9 / 2 bytes of weights and 2.101e9 x 2 bytes in 16 bit, with a scale of 2 bytes
    and a zero point of 4 bits for every 128 weights: (34.23 + 4.20 + 1.34) / 2 = 18.5 GiB."""
    checkpoint = by_format()["int4"]
    assert isinstance(checkpoint.result, Settled)
    assert checkpoint.context == 16384
    memory = checkpoint.result.memory
    assert memory.tightest.weights.value / GIB == pytest.approx(18.5, rel=0.02)
    assert memory.config.given.tensor_parallel_size == 2
    assert memory.kv_tokens.value >= 16384
    assert memory.starts.ok


def test_what_works_comes_first_and_as_asked_before_shorter() -> None:
    def rank(checkpoint: Checkpoint) -> int:
        if isinstance(checkpoint.result, Unfit):
            return 2
        return int(checkpoint.context < 16384)

    ranks = [rank(checkpoint) for checkpoint in found().checkpoints]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0
    assert len(by_format()) == len(found().checkpoints)


def test_a_shorter_context_does_not_claim_to_be_asked_for() -> None:
    """Only 4,096 tokens were lost to what others hold; more than half of the context remains."""
    wanted = replace(WANTED, context=32768)
    card, rig = bundled("Qwen/Qwen3-8B"), find_rig("4090", free_memory="19GiB")
    alternatives = find_alternatives(card, rig, wanted, find_release("0.19.1"))
    shorter = alternatives.shorter
    assert shorter is not None
    assert isinstance(shorter.result, Settled)
    assert 1408 <= shorter.context < 32768
    assert shorter.result.memory.config.max_model_len == shorter.context
    assert "less than 32768" in shorter.result.reasons["max_model_len"]


def test_no_context_helps_where_the_weights_alone_are_too_large() -> None:
    assert found().shorter is None


def test_the_fewest_of_the_same_gpus_that_serve_it() -> None:
    """Four ask for 86.9 GiB together, the weights are 131.4 GiB: it takes eight."""
    assert found().more_gpus is not None
    spec, settled = found().more_gpus
    assert spec == "8xrtx-4090"
    assert settled.memory.starts.ok
    assert settled.config.world_size == 8


def test_a_copy_that_does_not_say_that_it_is_quantized_is_no_way_out() -> None:
    """Qwen/Qwen3-32B-FP8-Static-PerTensor has no quantization_config: vLLM serves it in 16 bit."""
    card, rig = bundled("Qwen/Qwen3-32B"), find_rig("2x4090")
    ways = find_alternatives(card, rig, WANTED, find_release("0.33.0")).checkpoints
    assert {"fp8", "int4"} <= {way.card.format_kind for way in ways}
    assert "16bit" not in {way.card.format_kind for way in ways}


def test_fewer_requests_at_a_time_where_only_their_number_is_too_large() -> None:
    """A token of Qwen3-8B takes 36 layers x 2 x 8 x 128 x 2 bytes = 144 KiB, 72 in FP8.

    On an H100 some 55 GiB are left for them, 800,000 tokens: 94 requests of 8,192 + 384, and a few
    more with a larger share of the memory, of 128 that are asked for.
    """
    asked = Requirements(Workload(8192, 384, 128), "rag")
    card, rig = bundled("Qwen/Qwen3-8B"), find_rig("h100-sxm")
    ways = find_alternatives(card, rig, asked, find_release("0.33.0"))
    assert ways.fewer is not None
    at_once, settled = ways.fewer
    assert 90 < at_once < 100
    assert settled.tokens_held >= at_once * 8576
    assert found().fewer is None  # the weights alone are too large
