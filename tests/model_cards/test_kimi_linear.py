"""Kimi Linear and K3: a rank's share of delta attention, of gates and of experts."""

from __future__ import annotations

import pytest

from model_cards.build import build_card
from model_cards.caches import Attention, AttentionKind, RecurrentState, StateKind
from model_cards.card import Layer, ModelCard, Origin
from model_cards.errors import BadConfig
from model_cards.facts import Facts
from model_cards.modules import Experts, Linear
from model_cards.sources.bundled import bundled_config, open_bundled
from planner.memory.kv_specs import state_bytes
from planner.memory.parallel import local_experts, local_linear
from planner.memory.weights import Layout, encoder_bytes, module_bytes

LINEAR, K3 = "moonshotai/Kimi-Linear-48B-A3B-Instruct", "moonshotai/Kimi-K3"
SIZE = 128  # of a head of either model


def card_of(model_id: str) -> ModelCard:
    card = open_bundled(model_id)
    assert card is not None
    assert card.exact
    return card


def linear(layer: Layer, name: str) -> Linear:
    return next(m for m in layer.modules if isinstance(m, Linear) and m.name == name)


def experts(card: ModelCard) -> Experts:
    return next(m for layer in card.layers for m in layer.modules if isinstance(m, Experts))


def test_three_layers_of_four_keep_a_state_the_others_a_latent_vector() -> None:
    """32 heads of 128 x 128 in fp32, and what a kernel of 4 remembers of q, k and v in bf16."""
    card = card_of(LINEAR)
    delta = RecurrentState(
        StateKind.KDA, 3 * 32 * SIZE, 4, 32, SIZE**2, key_size=SIZE, dtype="float32",
        exports_states=False,
    )  # fmt: skip
    latent = Attention(32, 1, 512 + 64, 0, AttentionKind.MLA)
    assert tuple(card.caches()) == (delta, delta, delta, latent) * 6 + (delta, delta, latent)
    assert state_bytes(delta, 2, 2) == 3 * 12288 // 2 * 2 + 16 * SIZE**2 * 4


@pytest.mark.parametrize(("ranks", "heads"), [(1, 32), (4, 8), (32, 1)])
def test_every_rank_projects_the_whole_decay(ranks: int, heads: int) -> None:
    """q, k, v and one beta of its heads; the low-rank decay (128 features) is not split."""
    projection = linear(card_of(LINEAR).layers[0], "self_attn.in_proj_qkvgfab")
    assert sum(local_linear(projection, ranks)[1]) == heads * (3 * SIZE + 1) + SIZE


@pytest.mark.parametrize(
    ("ranks", "rows"),
    [(8, 6284), (16, 3206), (32, 1667)],  # heads of a rank x (4 x 128 + 1) + 128
)
def test_rows_behind_a_full_rank_gate_are_padded_to_16(ranks: int, rows: int) -> None:
    projection = linear(card_of(K3).layers[0], "self_attn.in_proj_qkvgfab")
    assert rows == 96 // ranks * (4 * SIZE + 1) + SIZE
    assert sum(local_linear(projection, ranks)[1]) == -(-rows // 16) * 16


def test_ranks_share_the_output_gate_that_is_fused_with_latent_projections() -> None:
    """Query rank 1536 and 576 latent values on every rank, 128 gates for each of its heads."""
    projection = linear(card_of(K3).layers[3], "self_attn.fused_qkv_a_g_proj")
    assert sum(local_linear(projection, 8)[1]) == 1536 + 576 + 12 * SIZE


@pytest.mark.parametrize(
    ("ranks", "width"),
    [(1, 1024), (2, 512), (4, 256), (8, 256), (16, 256)],
)
def test_slices_of_an_expert_are_no_narrower_than_256(ranks: int, width: int) -> None:
    module = experts(card_of(LINEAR))
    assert local_experts(module, ranks, spread=False) == (256, width)
    assert local_experts(module, 8, spread=True) == (32, 1024)


def test_experts_of_k3_work_in_half_the_width() -> None:
    """16 of 896, between projections of 7168 to 3584 and back that every rank has whole."""
    module = experts(card_of(K3))
    assert (module.count, module.active, module.hidden) == (896, 16, 3584)
    assert module.format.kind == "mxfp4"
    down = linear(card_of(K3).layers[1], "block_sparse_moe.routed_expert_down_proj")
    assert local_linear(down, 8) == (7168, (3584,))


def test_the_fused_decode_kernel_has_copies_of_its_own() -> None:
    """The convolution (3 x 12288 channels x 4) over the ranks and a norm of 128, both in fp32."""
    layer = card_of(K3).layers[0]

    def total(layout: Layout) -> int:
        return sum(module_bytes(module, layout) for module in layer.modules)

    plain, fused = Layout(8), Layout(8, fused_decode=True)
    assert total(fused) - total(plain) == (3 * 12288 * 4 // 8 + SIZE) * 4


def test_the_tower_is_whole_where_ranks_do_not_divide_its_12_heads() -> None:
    card = card_of(K3)
    whole = encoder_bytes(card, Layout(1))
    assert encoder_bytes(card, Layout(8)) == whole
    split = Layout(4)
    assert encoder_bytes(card, split) < whole
    asked = Layout(4, encoders_split=False)
    assert encoder_bytes(card, asked) == whole


def test_latent_attention_with_positions_is_refused() -> None:
    found = bundled_config(LINEAR)
    assert found is not None
    config, _ = found
    with pytest.raises(BadConfig, match="mla_use_nope"):
        build_card("x", config.merged({"mla_use_nope": False}), Origin("folder", ""), Facts())


def test_trtllm_keeps_the_order_of_rows_and_two_bounds_of_each_expert() -> None:
    """896 experts of 3 x 384 x 3584 weights of 4 bits with a byte for every 32.

    Two fp32 bounds of the activation each; int64 orders of 768 rows in and 3584 out, for weights
    and scales.
    """
    module = experts(card_of(K3))
    each = 3 * 384 * 3584 * 17 // 32 + 2 * 4
    expected = 896 * each + 2 * 8 * (768 + 3584)
    assert module_bytes(module, Layout(8, capability=(10, 0))) == expected
    assert module_bytes(module, Layout(8, capability=(9, 0))) == 896 * (each - 2 * 4)
