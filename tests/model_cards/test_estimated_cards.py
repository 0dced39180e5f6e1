"""Architectures that are not modelled: a stand-in of the right size, and notes that say so."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import card_of, llama

from model_cards import Fidelity, UnsupportedModel
from model_cards.caches import Attention, AttentionKind
from model_cards.card import ModelCard
from model_cards.modules import Bulk

# Vocabulary 2 x 1000 x 64 = 128,000 elements; the rest in 4 layers.
SHAPE = {
    "architectures": ["FutureForCausalLM"], "model_type": "future", "hidden_size": 64,
    "vocab_size": 1000, "num_hidden_layers": 4,
}  # fmt: skip
OUTSIDE = 2 * 1000 * 64


def future(**changes: Any) -> dict[str, Any]:
    return llama(**SHAPE | changes)


def bulk(card: ModelCard) -> Bulk:
    """What stands in for a layer; the same for all."""
    (module,) = card.layers[0].modules
    assert isinstance(module, Bulk)
    assert len({layer.modules for layer in card.layers}) == 1
    return module


def test_the_notes_name_the_architecture() -> None:
    card = card_of(future(), parameters=1_000_000)
    assert (card.exact, card.fidelity) == (False, Fidelity.ESTIMATED)
    assert card.notes == (
        "FutureForCausalLM is not modelled module by module; planned from its totals",
    )
    assert card.architecture == "FutureForCausalLM"


def test_an_unnamed_architecture() -> None:
    card = card_of(future(architectures=None), parameters=1_000_000)
    assert card.notes[0].startswith("an unnamed architecture is not modelled")
    with pytest.raises(UnsupportedModel) as caught:
        card_of(future(architectures=None, model_type=None))
    assert str(caught.value) == (
        "config.json: its architecture is not modelled and its size is not known; a folder with "
        "its safetensors files, or access to the Hub, would give it"
    )


def test_the_first_modelled_architecture_counts() -> None:
    assert card_of(llama(architectures=["FutureForCausalLM", "LlamaForCausalLM"])).exact


def test_layers_share_what_is_not_vocabulary() -> None:
    card = card_of(future(), parameters=1_000_000)
    share = (1_000_000 - OUTSIDE) // 4
    module = bulk(card)
    assert (module.elements, module.bytes, module.active) == (share, 2 * share, share)
    # The final norm of 64 is on top.
    assert card.parameters == 4 * share + OUTSIDE + 64
    tied = card_of(future(tie_word_embeddings=True), parameters=1_000_000)
    assert bulk(tied).elements == (1_000_000 - OUTSIDE // 2) // 4
    assert tied.tied


def test_the_files_sizes_give_the_parameters() -> None:
    """2,000,000 bytes in 16 bit are 1,000,000 parameters."""
    card = card_of(future(), checkpoint_bytes=2_000_000)
    assert bulk(card).elements == (1_000_000 - OUTSIDE) // 4
    assert card.checkpoint_bytes == 2_000_000


def test_both_are_taken_where_both_are_known() -> None:
    """8-bit weights inside, 16-bit vocabulary."""
    stored = (1_000_000 - OUTSIDE) + 2 * OUTSIDE
    card = card_of(future(), parameters=1_000_000, checkpoint_bytes=stored)
    share = (1_000_000 - OUTSIDE) // 4
    assert (bulk(card).elements, bulk(card).bytes) == (share, share)


def test_quantization_is_counted_where_it_is_known() -> None:
    settings = {"quant_method": "fp8"}
    card = card_of(future(quantization_config=settings), parameters=1_000_000)
    assert (card.quantization, card.format_kind) == ("fp8", "fp8")
    share = (1_000_000 - OUTSIDE) // 4
    assert bulk(card).bytes == pytest.approx(share, rel=0.001)


@pytest.mark.parametrize(
    ("method", "kind", "per_weight"),
    [("bitsandbytes", "int4", 0.5625), ("gguf", "int4", 0.6), ("fbgemm_fp8", "fp8", 1.05),
     ("unheard-of", "16bit", 2.0)],
)  # fmt: skip
def test_methods_that_are_not_modelled(method: str, kind: str, per_weight: float) -> None:
    config = future(quantization_config={"quant_method": method})
    card = card_of(config, parameters=1_000_000)
    assert (card.quantization, card.format_kind) == (method, kind)
    assert bulk(card).bytes == pytest.approx((1_000_000 - OUTSIDE) * per_weight / 4, rel=0.001)
    assert any(f"quantization '{method}' is not modelled" in note for note in card.notes)


def test_a_modelled_architecture_needs_no_total() -> None:
    """Only its quantization is not modelled: its parameters are counted as if it were not."""
    config = llama(hidden_size=64, vocab_size=1000, quantization_config={"quant_method": "hqq"})
    exact = card_of(llama(hidden_size=64, vocab_size=1000))
    card = card_of(config)
    assert not card.exact
    # Its layers' share is rounded down, the stand-in's final norm of 64 comes on top.
    assert card.parameters == pytest.approx(exact.parameters + 64, abs=4)


def test_active_experts() -> None:
    """2 of 8 experts of 3 x 64 x 32 in each of 4 layers, the first of them dense."""
    moe = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
           "first_k_dense_replace": 1}  # fmt: skip
    card = card_of(future(**moe), parameters=1_000_000)
    routed = 3 * 8 * 3 * 64 * 32
    inside = 1_000_000 - OUTSIDE
    assert bulk(card).active == (inside - routed + routed // 4) // 4
    assert (card.is_moe, card.experts_per_token) == (True, 2)
    # More dense layers than layers, or more active experts than experts, change nothing.
    assert bulk(
        card_of(future(**moe | {"first_k_dense_replace": 99}), parameters=10**6)
    ).active <= (inside // 4)
    many = card_of(future(**moe | {"num_experts_per_tok": 99}), parameters=10**6)
    assert bulk(many).active == inside // 4


def caches(**changes: Any) -> list[tuple[AttentionKind, int | None] | None]:
    card = card_of(future(**changes), parameters=1_000_000)
    found: list[tuple[AttentionKind, int | None] | None] = []
    for layer in card.layers:
        kinds = [(c.kind, c.window) for c in layer.caches if isinstance(c, Attention)]
        found.append(kinds[0] if kinds else None)
    return found


def test_caches_from_the_usual_keys() -> None:
    full, sliding = (AttentionKind.FULL, None), (AttentionKind.SLIDING, 32)
    assert caches() == [full] * 4
    types = ["sliding_attention", "full_attention", "linear_attention", "mamba"]
    assert caches(layer_types=types, sliding_window=32) == [sliding, full, None, None]
    assert caches(kv_lora_rank=16) == [(AttentionKind.MLA, None)] * 4


def test_the_cached_heads() -> None:
    card = card_of(future(head_dim=24), parameters=1_000_000)
    (cache,) = card.layers[0].caches
    assert isinstance(cache, Attention)
    assert (cache.num_heads, cache.num_kv_heads, cache.head_size) == (4, 2, 24)
    mla = card_of(future(kv_lora_rank=16, qk_rope_head_dim=8), parameters=1_000_000)
    (cache,) = mla.layers[0].caches
    assert isinstance(cache, Attention)
    assert (cache.num_kv_heads, cache.head_size) == (1, 24)


@pytest.mark.parametrize(
    ("changes", "facts", "problem"),
    [
        ({}, {}, "FutureForCausalLM is not modelled and its size is not known"),
        ({"num_hidden_layers": None}, {"parameters": 10**6}, "no layer count, hidden size or"),
        ({}, {"parameters": 128_000}, "128000 parameters are fewer than its vocabulary alone"),
        ({}, {"parameters": 10**6, "checkpoint_bytes": 5}, "fewer than its vocabulary alone"),
        ({"num_attention_heads": None}, {"parameters": 10**6}, "no attention heads to estimate"),
    ],
)
def test_what_cannot_be_estimated(
    changes: dict[str, Any], facts: dict[str, int], problem: str
) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        card_of(future(**changes), **facts)
    message = str(caught.value)
    assert message.startswith("config.json: ")
    assert problem in message
    assert message.isprintable()


def test_an_mlp_of_unknown_width_is_taken_as_four_times_the_hidden_size() -> None:
    assert card_of(future(), parameters=10**6).max_intermediate_size == 16
    for width in (None, [16, 16, 16, 16]):
        card = card_of(future(intermediate_size=width), parameters=10**6)
        assert card.max_intermediate_size == 4 * 64
