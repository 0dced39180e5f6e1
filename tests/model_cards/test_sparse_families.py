"""MoE families whose layers differ: what no published total and no case of vLLM tells apart."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model_cards.caches import Attention, AttentionKind
from model_cards.card import ModelCard
from model_cards.modules import Experts, Linear, Tensor
from model_cards.quantization.formats import FLOAT32
from model_cards.sources.bundled import open_bundled
from planner.engine.moe import Tile, experts_tile
from planner.memory.repacking import experts_bytes
from planner.memory.weights import Layout, module_bytes

B200 = (10, 0)


def card_of(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    assert card.exact
    return card


def tensor(card: ModelCard, name: str) -> Tensor:
    return next(m for m in card.modules() if isinstance(m, Tensor) and m.name == name)


def experts(card: ModelCard) -> Experts:
    return next(module for module in card.modules() if isinstance(module, Experts))


def test_mimo_has_heads_of_two_kinds() -> None:
    """Full layers have 4 KV heads, sliding ones 8; keys are 192 wide and values 128."""
    caches = card_of("XiaomiMiMo/MiMo-V2-Flash").attention_layers
    full = Attention(64, 4, 192, 128)
    sliding = Attention(64, 8, 192, 128, AttentionKind.SLIDING, 128, sinks=True)
    assert caches[0] == full
    assert caches[1] == sliding
    assert (caches.count(full), caches.count(sliding)) == (9, 39)


def test_llama4_attends_in_chunks_but_for_every_fourth_layer() -> None:
    caches = card_of("meta-llama/Llama-4-Scout-17B-16E-Instruct").attention_layers
    chunked = [cache.kind is AttentionKind.CHUNKED for cache in caches]
    assert chunked == [True, True, True, False] * 12
    assert caches[0].window == 8192


def test_maverick_alternates_dense_and_sparse_layers() -> None:
    card = card_of("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    sparse = [any(isinstance(m, Experts) for m in layer.modules) for layer in card.layers]
    assert sparse == [False, True] * 24


@pytest.mark.parametrize(
    "model_id", ["zai-org/GLM-4.6", "zai-org/GLM-4.7-Flash", "MiniMaxAI/MiniMax-M2.7"]
)
def test_routers_in_fp32(model_id: str) -> None:
    linears = [module for module in card_of(model_id).modules() if isinstance(module, Linear)]
    assert {linear.format for linear in linears if linear.name == "mlp.gate"} == {FLOAT32}


def test_norms_of_replicated_kv_heads() -> None:
    """Of MiniMax M2's 8 KV heads, each of 16 ranks has one: so much of the norm it keeps."""
    card = card_of("MiniMaxAI/MiniMax-M2.7")
    norm = tensor(card, "self_attn.k_norm")
    assert norm.shape == (8, 128)
    assert module_bytes(norm, Layout(tensor_parallel_size=4)) == 2 * 128 * 2
    assert module_bytes(norm, Layout(tensor_parallel_size=16)) == 128 * 2


def test_trtllm_pads_16_bit_experts_on_the_b200() -> None:
    """Of GLM-4.6's 1536 features 8 ranks have 192 each, kept as 256; vLLM: 111,987,916,800 B."""
    glm = experts(card_of("zai-org/GLM-4.6"))
    assert 89 * experts_bytes(glm, 160, 192, 2, B200) == 111_987_916_800
    assert 89 * experts_bytes(glm, 160, 192, 2, (9, 0)) == 83_990_937_600


def test_trtllm_knows_not_every_routing() -> None:
    assert experts_tile(experts(card_of("allenai/OLMoE-1B-7B-0924")), B200) == Tile(1, 1)


def test_channel_scales_of_fp8_experts() -> None:
    """CUTLASS keeps three strides an expert on Hopper; Marlin has its scales in the dtype."""
    scout = experts(card_of("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic"))
    weights, outputs = 3 * 8192 * 5120, 2 * 8192 + 5120
    assert experts_bytes(scout, 1, 8192, 2, (8, 9)) == weights + 4 * outputs
    assert experts_bytes(scout, 1, 8192, 2, (9, 0)) == weights + 4 * outputs + 3 * 8
    assert experts_bytes(scout, 1, 8192, 2, (8, 0)) == weights + 2 * outputs
    ungated = replace(scout, gated=False)
    assert experts_bytes(ungated, 1, 8192, 2, (9, 0)) == 2 * 8192 * 5120 + 4 * (8192 + 5120)
