"""max_num_batched_tokens and max_num_seqs that the API server takes when nobody gives them.

Expected values are the answers of vLLM's own `EngineArgs.get_batch_defaults` (0.11.1 on) and what
`_set_default_args_v1` says (before), for the memory and name of each GPU.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hardware_db import find_rig
from model_cards.card import ModelCard
from model_cards.sources.bundled import open_bundled
from planner import EngineConfig
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import device_facts
from planner.engine.releases import find_release

SMALL, LARGE, HUGE = (2048, 256), (8192, 1024), (16384, 1024)
# rig: what holds from which release on
BATCH = {
    "t4": {"0.8.5": SMALL, "0.33.0": SMALL},
    "3090": {"0.8.5": SMALL, "0.20.0": SMALL, "0.33.0": SMALL},
    "4090": {"0.8.5": SMALL, "0.27.1": SMALL, "0.28.0": SMALL, "0.33.0": SMALL},
    "l40s": {"0.8.5": SMALL, "0.33.0": SMALL},
    "a6000": {"0.8.5": SMALL, "0.33.0": SMALL},
    "a100-sxm4-40gb": {"0.8.5": SMALL, "0.33.0": SMALL},
    "a100-sxm4-80gb": {"0.8.5": LARGE, "0.9.0": SMALL, "0.28.0": SMALL, "0.33.0": SMALL},
    "h100-sxm": {"0.8.5": LARGE, "0.9.0": LARGE, "0.28.0": LARGE, "0.33.0": LARGE},
    "rtx-pro-6000-blackwell": {"0.8.5": LARGE, "0.33.0": LARGE},
    "gb10": {"0.8.5": LARGE, "0.32.0": LARGE, "0.33.0": SMALL},
    "h200-sxm": {"0.8.5": LARGE, "0.28.0": LARGE, "0.33.0": LARGE},
    "b200": {"0.8.5": LARGE, "0.27.1": LARGE, "0.28.0": HUGE, "0.33.0": HUGE},
    "mi300x": {"0.8.5": LARGE, "0.27.1": LARGE, "0.28.0": HUGE, "0.33.0": HUGE},
}


@pytest.fixture(scope="module")
def card() -> ModelCard:
    card = open_bundled("Qwen/Qwen3-8B")
    assert card is not None
    return card


def resolved(
    card: ModelCard, rig: str, config: EngineConfig | None = None, release: str = "0.33.0"
) -> ResolvedConfig:
    device = device_facts(find_rig(rig).smallest.gpu)
    return resolve(card, device, config or EngineConfig(), find_release(release))


def batch(config: ResolvedConfig) -> tuple[int, int]:
    return config.max_num_batched_tokens, config.max_num_seqs


@pytest.mark.parametrize(
    ("rig", "release", "expected"),
    [(rig, release, want) for rig, by in BATCH.items() for release, want in by.items()],
)
def test_by_gpu_and_release(
    card: ModelCard, rig: str, release: str, expected: tuple[int, int]
) -> None:
    assert batch(resolved(card, rig, release=release)) == expected


def test_a_cpu_takes_more_with_every_rank(card: ModelCard) -> None:
    assert batch(resolved(card, "cpu:64GiB")) == (2048, 128)
    two = EngineConfig(tensor_parallel_size=2)
    assert batch(resolved(card, "cpu:64GiB", two)) == (4096, 256)


def test_what_is_given_is_kept(card: ModelCard) -> None:
    given = EngineConfig(max_num_seqs=7, max_num_batched_tokens=777)
    assert batch(resolved(card, "h100-sxm", given)) == (777, 7)


def test_sequences_never_exceed_a_given_batch_when_left_unset(card: ModelCard) -> None:
    """From 0.10.1.1 on; before, the server refuses to start (see test_refusals)."""
    given = EngineConfig(max_num_batched_tokens=128)
    assert batch(resolved(card, "4090", given, "0.10.1.1")) == (128, 128)
    assert batch(resolved(card, "4090", given, "0.10.0")) == (128, 256)


def test_the_batch_never_exceeds_all_sequences_at_full_length(card: ModelCard) -> None:
    """min(max_num_seqs x max_model_len, default) from 0.11.1 on."""
    given = EngineConfig(max_num_seqs=4, max_model_len=300)
    assert batch(resolved(card, "4090", given, "0.11.1")) == (1200, 4)
    assert batch(resolved(card, "4090", given, "0.11.0")) == (2048, 4)


def test_without_chunked_prefill_a_batch_holds_a_whole_prompt(card: ModelCard) -> None:
    given = EngineConfig(enable_chunked_prefill=False, max_model_len=20000)
    assert batch(resolved(card, "4090", given)) == (20000, 256)
    short = replace(given, max_model_len=1000)
    assert batch(resolved(card, "4090", short)) == (2048, 256)
