"""MiniMax M3: what its indexer adds to weights, caches and buffers, and its MTP layer."""

from __future__ import annotations

import pytest

from model_cards.build import build_card
from model_cards.caches import Attention, AttentionKind
from model_cards.card import ModelCard, Origin
from model_cards.config import Config
from model_cards.facts import Facts
from model_cards.modules import Experts, Linear
from model_cards.sources.bundled import bundled_config, open_bundled
from planner.memory.parallel import local_linear
from planner.memory.weights import Layout, module_bytes

HIDDEN, HEADS, KV_HEADS, SIZE = 6144, 64, 4, 128


def card_of(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    assert card.exact
    return card


def qkv(card: ModelCard, layer: int) -> Linear:
    return next(
        module
        for module in card.layers[layer].modules
        if isinstance(module, Linear) and module.name == "self_attn.qkv_proj"
    )


@pytest.mark.parametrize(
    ("ranks", "kv_heads"),
    [(1, 4), (4, 1), (16, 1)],  # a KV head and its index head are whole on every rank
)
def test_a_sparse_layer_projects_index_queries_and_a_key_too(ranks: int, kv_heads: int) -> None:
    """Queries, keys, values, an index query for every KV head, one index key."""
    card = card_of("MiniMaxAI/MiniMax-M3")
    queries = HEADS // ranks * SIZE
    dense, sparse = local_linear(qkv(card, 0), ranks), local_linear(qkv(card, 3), ranks)
    assert sum(dense[1]) == queries + 2 * kv_heads * SIZE
    assert sum(sparse[1]) == queries + 3 * kv_heads * SIZE + SIZE


def test_only_the_layers_behind_the_third_have_an_index_cache() -> None:
    """A bf16 key of 128 features for every token; blocks of 128 tokens are picked, 16 at a time."""
    caches = card_of("nvidia/MiniMax-M3-NVFP4").attention_layers
    dense = Attention(HEADS, KV_HEADS, SIZE, SIZE)
    index = Attention(KV_HEADS, 1, 256, 0, AttentionKind.INDEXER, sparse_block=128)
    sparse = Attention(HEADS, KV_HEADS, SIZE, SIZE, index_topk=16, sparse_block=128)
    assert caches == (dense,) * 3 + (index, sparse) * 57


def test_the_nvfp4_checkpoint_keeps_attention_in_mxfp8() -> None:
    """A byte a weight and a scale byte for every 32; routers, tower and head are not quantized."""
    card = card_of("nvidia/MiniMax-M3-NVFP4")
    weights = (HEADS + 3 * KV_HEADS + 1) * SIZE * HIDDEN
    assert module_bytes(qkv(card, 3), Layout()) == weights + weights // 32
    assert card.lm_head is not None
    assert module_bytes(card.lm_head, Layout()) == 2 * 200064 * HIDDEN
    blocks = [m for m in card.towers[0].modules if m.name == "self_attn.qkv_proj"]
    assert {module_bytes(block, Layout()) for block in blocks} == {2 * 3 * 1280 * (1280 + 1)}


def test_mtp_layers_are_there_unless_the_total_leaves_no_room() -> None:
    """vLLM 0.33.0 builds 2,011,756,048 bytes of MTP on one of eight ranks."""
    assert card_of("MiniMaxAI/MiniMax-M3").drafts == ()
    assert card_of("nvidia/MiniMax-M3-NVFP4").drafts == ()  # two 4-bit weights count as one
    bundled = bundled_config("MiniMaxAI/MiniMax-M3")
    assert bundled is not None
    config = bundled[0]
    text = {**config.raw("text_config"), "num_mtp_modules": 1}
    values = {**{key: config.raw(key) for key in config}, "text_config": text}
    card = build_card("m3", Config(values, "config.json"), Origin("folder", "m3"), Facts())
    (draft,) = card.drafts
    modules = [*draft.layers[0].modules, *draft.modules]
    layout = Layout(tensor_parallel_size=8)
    assert sum(module_bytes(module, layout) for module in modules) == 2_011_756_048


def test_trtllm_keeps_six_numbers_of_each_nvfp4_expert() -> None:
    """Slope, offset and limit; offset and limit again in units of the product; a scale between.

    Only on the B200 family: on SM 12.x the three alone.
    """
    card = card_of("nvidia/MiniMax-M3-NVFP4")
    experts = next(m for m in card.layers[-1].modules if isinstance(m, Experts))

    def total(capability: tuple[int, int]) -> int:
        return module_bytes(experts, Layout(capability=capability))

    assert total((10, 0)) - total((9, 0)) == 128 * 6 * 4
    assert total((12, 0)) - total((9, 0)) == 128 * 3 * 4
