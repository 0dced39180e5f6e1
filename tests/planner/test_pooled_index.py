"""GLM-5.3-Flash as vLLM 0.33.0 plans it: keys of groups, a ring for the last one, fp32 states."""

from __future__ import annotations

from math import lcm

import pytest

from hardware_db import find_gpu
from model_cards.caches import Attention, AttentionKind, RecurrentState, StateKind
from model_cards.card import ModelCard
from model_cards.modules import Experts, Linear
from model_cards.sources.bundled import open_bundled
from planner.engine.defaults import resolve
from planner.engine.device import device_facts
from planner.engine.refusal import RefusalKind
from planner.engine.releases import find_release
from planner.engine.rules import refusals
from planner.engine_config import EngineConfig, SpeculativeConfig
from planner.memory.kv_groups import block_bytes
from planner.memory.kv_specs import SpecKind, ring_tokens
from planner.memory.loaded import LoadedModel, load_model
from planner.memory.parallel import local_linear
from planner.memory.weights import Layout, module_bytes

FP8, BF16 = "zai-org/GLM-5.3-Flash", "zai-org/GLM-5.3-Flash-BF16"
RELEASE = find_release("0.33.0")
TP8 = EngineConfig(tensor_parallel_size=8, max_model_len=131072)


def card_of(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    assert card.exact
    return card


def loaded(given: EngineConfig, gpu: str = "h200-sxm", model_id: str = FP8) -> LoadedModel:
    card, device = card_of(model_id), device_facts(find_gpu(gpu).gpu)
    return load_model(card, resolve(card, device, given, RELEASE), device)


def linear(card: ModelCard, layer: int, name: str) -> Linear:
    modules = card.layers[layer].modules
    return next(m for m in modules if isinstance(m, Linear) and m.name == name)


def test_every_fourth_layer_has_three_caches() -> None:
    """A key of 132 bytes for 4 tokens, key and gate of the last ones, a latent vector of 512.

    2048 tokens are picked, and up to 3 of the last group: 2051, in rows of 2176.
    """
    card = card_of(FP8)
    delta = RecurrentState(
        StateKind.KDA, 3 * 64 * 128, 4, 64, 128 * 128, key_size=128, dtype="float32"
    )
    sparse = (
        Attention(32, 1, 128 + 4, 0, AttentionKind.INDEXER, compression=4),
        Attention(64, 1, 2 * 128, 0, AttentionKind.TAIL, window=4),
        Attention(64, 1, 512, 0, AttentionKind.MLA, index_topk=2176, own_picks=True),
    )
    assert tuple(card.caches()) == ((delta,) * 3 + sparse) * 11 + (delta,)


@pytest.mark.parametrize(
    ("drafted", "tokens"),
    [(0, 4), (1, 8), (4, 8), (5, 16), (12, 16), (13, 32)],  # a power of two of groups of 4
)
def test_the_ring_has_room_for_what_is_drafted(drafted: int, tokens: int) -> None:
    assert ring_tokens(4, drafted) == tokens


def test_pages_lie_side_by_side() -> None:
    """On 8 ranks a state takes 8 x 128 x 128 fp32 and 3 x 3072 bf16 values: 542,720 bytes.

    That is 530 tokens of 512 bf16 values, or 5 times 128: blocks of 640. A key page has 160 keys,
    a ring 4 tokens of 512 bytes. The 34 states go into as few groups as a block of 11 latent and
    11 key pages has room for.
    """
    model = loaded(TP8)
    state, latent, keys, ring = 640 * 1024, 640 * 1024, 160 * 132, 4 * 512
    states = [group for group in model.cache.groups if group.specs[0].kind is SpecKind.MAMBA]
    assert [len(group.layers) for group in states] == [9, 9, 8, 8]
    assert {group.specs[0].page_size_bytes for group in states} == {state}
    pages, rings = model.cache.groups[4:]
    assert pages.page_bytes() == 11 * (latent + keys)
    assert {spec.block_size for spec in pages.specs} == {640}
    assert (rings.block_size, rings.page_bytes()) == (4, 11 * ring)
    assert rings.blocks_per_request(131072, 8192) == 1


def test_blocks_lie_whole_rows_and_pages_of_keys_apart() -> None:
    """Rows of 1024 bytes and pages of 32 keys on Hopper; on the B200 family 32 rows in fp8."""
    for gpu, tokens, row, rows in (("h200-sxm", 640, 1024, 1), ("b200", 1152, 512, 32)):
        widest = 11 * (tokens * row + tokens // 4 * 132)
        apart = lcm(rows * row, 32 * 132)
        found = block_bytes(loaded(TP8, gpu).cache.groups, None, aligned=True)
        assert found == -(-widest // apart) * apart


def test_each_sparse_layer_keeps_the_rows_of_a_whole_batch() -> None:
    """8192 tokens x 2176 picks, shared; and for 11 layers the rows of 8193, with a count each."""
    (stage,) = loaded(TP8).stages
    assert stage.buffers.sparse == 4 * (8192 * 2176 + 11 * 8193 * 2177)


def test_a_drafting_layer_has_picks_rows_and_caches_too() -> None:
    """No hyper-connections and no vocabulary of its own; a projection of 2 x 4096 features."""
    drafting = EngineConfig(
        tensor_parallel_size=8,
        max_model_len=131072,
        speculative_config=SpeculativeConfig("mtp", 3),
    )
    (stage,) = loaded(drafting).stages
    assert stage.buffers.sparse == 4 * (2 * 8192 * 2176 + 12 * 8193 * 2177)
    (draft,) = card_of(FP8).drafts
    names = [module.name for module in draft.layers[0].modules]
    assert not any(name.startswith("hc_") for name in names)
    assert draft.embedding is None
    assert draft.lm_head is None


@pytest.mark.parametrize(("ranks", "heads"), [(1, 64), (8, 8)])
def test_ranks_project_decay_and_gate_whole(ranks: int, heads: int) -> None:
    projection = linear(card_of(FP8), 0, "self_attn.in_proj_qkvbfg_a")
    assert sum(local_linear(projection, ranks)[1]) == heads * (3 * 128 + 1) + 2 * 128


def test_fp8_leaves_attention_and_tower_alone() -> None:
    card = card_of(FP8)
    fp8 = {m.name for layer in card.layers for m in layer.modules if isinstance(m, Linear)
           and m.format.kind == "fp8"}  # fmt: skip
    assert fp8 == {
        "mlp.gate_up_proj",
        "mlp.down_proj",
        "mlp.shared_experts.gate_up_proj",
        "mlp.shared_experts.down_proj",
    }
    formats = {m.format.kind for m in card.towers[0].modules if isinstance(m, Linear)}
    assert formats == {"16bit"}


@pytest.mark.parametrize(
    ("model_id", "capability", "spread", "kept"),
    [
        (FP8, (9, 0), 1, False),  # Triton
        (FP8, (9, 0), 8, True),  # FlashInfer's CUTLASS, for whole experts
        (FP8, (10, 0), 1, True),
        (FP8, (12, 0), 1, False),
        (BF16, (9, 0), 8, False),
        (BF16, (10, 0), 1, False),  # TRT-LLM's for 16 bits
        (BF16, (12, 0), 1, True),
    ],
)
def test_some_kernels_keep_the_limit_of_each_expert(
    model_id: str, capability: tuple[int, int], spread: int, kept: bool
) -> None:
    card = card_of(model_id)
    experts = next(m for m in card.layers[-1].modules if isinstance(m, Experts))
    found = module_bytes(experts, Layout(8, expert_parallel=spread > 1, capability=capability))
    weights = 3 * 4096 * 2048 * (2 if model_id == BF16 else 1)
    scales = 0 if model_id == BF16 else 3 * 32 * 16 * 4
    each = (weights + scales) // (8 if spread == 1 else 1)
    count = 288 // spread
    assert found == count * (each + (4 if kept else 0))


def test_the_class_says_it_can_be_split_but_cannot() -> None:
    card, device = card_of(FP8), device_facts(find_gpu("h200-sxm").gpu)
    split = resolve(card, device, EngineConfig(pipeline_parallel_size=2), RELEASE)
    assert RefusalKind.PIPELINE in {each.kind for each in refusals(card, device, split, RELEASE)}
