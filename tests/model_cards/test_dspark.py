"""DSpark drafts: DFlash's layers with a Markov head and a confidence head."""

from __future__ import annotations

import pytest

from hardware_db import find_gpu
from model_cards.build import Facts, build_card
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.modules import Tensor
from model_cards.sources.bundled import bundled_config, open_bundled
from planner import EngineConfig
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import DeviceFacts, device_facts
from planner.engine.releases import find_release
from planner.engine_config import SpeculativeConfig
from planner.memory.draft import Unreadable
from planner.memory.loaded import load_model

DRAFT = "SpecForge/qwen3-8b-dspark"
RELEASE = find_release("0.33.0")


def as_vllm_reads_it() -> ModelCard:
    """The draft with its DSpark settings beside `dflash_config`."""
    found = bundled_config(DRAFT)
    assert found is not None
    values = {key: found[0].raw(key) for key in found[0]}
    keys = ("markov_rank", "enable_confidence_head", "confidence_head_with_markov")
    values |= {key: values["dflash_config"][key] for key in keys}
    return build_card(DRAFT, Config(values, "config.json"), Origin("bundled", "test"), Facts())


def settled(draft: ModelCard, ranks: int) -> tuple[ModelCard, ResolvedConfig, DeviceFacts]:
    card = open_bundled("Qwen/Qwen3-8B")
    assert card is not None
    given = EngineConfig(
        tensor_parallel_size=ranks,
        max_model_len=8192,
        speculative_config=SpeculativeConfig("dspark", 7, draft.model_id),
    )
    device = device_facts(find_gpu("h100-sxm").gpu)
    return card, resolve(card, device, given, RELEASE, draft), device


def test_heads() -> None:
    """Rank 256 over 151,936 tokens, twice; confidence from 4096 features and 256, in fp32."""
    card = open_bundled(DRAFT)
    assert card is not None
    assert card.head is not None
    assert card.head.method == "dspark"
    tensors = {m.name: m for m in card.modules() if isinstance(m, Tensor)}
    assert tensors["markov_head.markov_w1"].shape == (151936, 256)
    assert tensors["markov_head.markov_w2"].shape == (151936, 256)
    assert tensors["confidence_head.proj.weight"].elements == 4096 + 256
    assert tensors["confidence_head.proj.weight"].dtype == "float32"


@pytest.mark.parametrize(("ranks", "total"), [(1, 2_252_861_012), (2, 1_288_171_092)])
def test_bytes_as_vllm_loads_it(ranks: int, total: int) -> None:
    """What vLLM 0.33.0's class holds; both heads and the projection are whole on every rank."""
    card, config, device = settled(as_vllm_reads_it(), ranks)
    assert load_model(card, config, device).stages[0].weights.draft == total


def test_staged_hidden_states() -> None:
    """Of 5 layers for every token of a decode step, beside the projected ones of a batch."""
    card, config, device = settled(as_vllm_reads_it(), 1)
    buffers = load_model(card, config, device).stages[0].buffers
    decoded = min(8192, 1024 * 8)
    assert buffers.draft == 2 * (8192 * 4096 + decoded * 5 * 4096)


def test_vllm_does_not_find_specforges_settings() -> None:
    """vLLM 0.33.0: 'Qwen3Config' object has no attribute 'markov_rank'."""
    draft = open_bundled(DRAFT)
    assert draft is not None
    with pytest.raises(Unreadable, match="markov_rank"):
        load_model(*settled(draft, 1))
