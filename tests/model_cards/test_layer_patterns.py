"""Layers that differ from one another: windows, dense layers among sparse ones, recurrent ones."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import DELTA_NET, card_of, llama

from model_cards import BadConfig
from model_cards.caches import Attention, AttentionKind, RecurrentState
from model_cards.card import ModelCard
from model_cards.modules import Experts


def family(architecture: str, model_type: str, **changes: Any) -> dict[str, Any]:
    return llama(architectures=[architecture], model_type=model_type, **changes)


def windows(card: ModelCard) -> list[int | None]:
    """Of every layer, None for full attention."""
    found = []
    for layer in card.layers:
        (cache,) = layer.caches
        assert isinstance(cache, Attention)
        assert (cache.kind is AttentionKind.FULL) == (cache.window is None)
        found.append(cache.window)
    return found


def sparse(card: ModelCard) -> list[int]:
    """Layers with routed experts."""
    return [
        index
        for index, layer in enumerate(card.layers)
        if any(isinstance(module, Experts) for module in layer.modules)
    ]


def test_llama_has_full_attention() -> None:
    assert windows(card_of(llama())) == [None, None]


MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}


@pytest.mark.parametrize(
    ("keys", "window"),
    [({"sliding_window": 32}, 32), ({"sliding_window": None}, None), ({}, 4096)],
    ids=["stated", "null", "absent"],
)
def test_mistrals_window(keys: dict[str, Any], window: int | None) -> None:
    """transformers' class slides over 4096 tokens unless the file says `null`."""
    assert windows(card_of(llama() | MISTRAL | keys)) == [window, window]


def test_qwen_slides_only_if_told_to() -> None:
    """From layer `max_window_layers` on."""
    shape = {"num_hidden_layers": 4, "sliding_window": 32, "max_window_layers": 3}
    for architecture, model_type in (("Qwen2ForCausalLM", "qwen2"), ("Qwen3ForCausalLM", "qwen3")):
        off = family(architecture, model_type, use_sliding_window=False, **shape)
        assert windows(card_of(off)) == [None] * 4
        on = family(architecture, model_type, use_sliding_window=True, **shape)
        assert windows(card_of(on)) == [None, None, None, 32]


def test_gemma2_alternates_beginning_with_a_window() -> None:
    gemma = family("Gemma2ForCausalLM", "gemma2", head_dim=2, num_hidden_layers=5,
                   sliding_window=32)  # fmt: skip
    assert windows(card_of(gemma)) == [32, None, 32, None, 32]


@pytest.mark.parametrize(
    ("keys", "full"),
    [({}, [5, 11]), ({"sliding_window_pattern": 4}, [3, 7, 11]),
     ({"layer_types": ["full_attention"] + ["sliding_attention"] * 11}, [0])],
)  # fmt: skip
def test_gemma3_has_one_full_layer_in_six(keys: dict[str, Any], full: list[int]) -> None:
    gemma = family("Gemma3ForCausalLM", "gemma3_text", head_dim=2, num_hidden_layers=12,
                   sliding_window=32, **keys)  # fmt: skip
    found = windows(card_of(gemma))
    assert [index for index, window in enumerate(found) if window is None] == full
    assert set(found) == {None, 32}


def test_cohere2_and_exaone4_have_one_full_layer_in_four() -> None:
    """A token of Cohere's sees 32 before itself, which makes a window of 33."""
    types = (["sliding_attention"] * 3 + ["full_attention"]) * 2
    for architecture, model_type, window in (
        ("Cohere2ForCausalLM", "cohere2", 33),
        ("Exaone4ForCausalLM", "exaone4", 32),
    ):
        config = family(architecture, model_type, head_dim=2, num_hidden_layers=8,
                        sliding_window=32, layer_types=types)  # fmt: skip
        assert windows(card_of(config)) == [window, window, window, None] * 2


def test_gpt_oss_alternates() -> None:
    config = family(
        "GptOssForCausalLM", "gpt_oss", num_local_experts=4, num_experts_per_tok=2, head_dim=2,
        num_hidden_layers=4, sliding_window=32,
        layer_types=["sliding_attention", "full_attention"] * 2,
    )  # fmt: skip
    assert windows(card_of(config)) == [32, None, 32, None]


@pytest.mark.parametrize("types", [["full_attention"], ["sliding_attention"] * 3])
def test_layer_types_must_be_as_many_as_layers(types: list[str]) -> None:
    gemma = family("Gemma3ForCausalLM", "gemma3_text", head_dim=2, sliding_window=32,
                   layer_types=types)  # fmt: skip
    with pytest.raises(BadConfig, match="layer_types must be one entry for each of 2 layers"):
        card_of(gemma)


def test_sliding_layers_need_a_window() -> None:
    gemma = family("Gemma2ForCausalLM", "gemma2", head_dim=2, sliding_window="wide")
    with pytest.raises(BadConfig, match="sliding_window must be a whole number"):
        card_of(gemma)


QWEN_MOE = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "num_hidden_layers": 6,
}  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "expected"),
    [({}, [0, 1, 2, 3, 4, 5]), ({"mlp_only_layers": [0, 5]}, [1, 2, 3, 4]),
     ({"decoder_sparse_step": 2}, [1, 3, 5]),
     ({"decoder_sparse_step": 2, "mlp_only_layers": [3]}, [1, 5]),
     ({"decoder_sparse_step": 3}, [2, 5])],
)  # fmt: skip
def test_dense_layers_of_qwen_moe(keys: dict[str, Any], expected: list[int]) -> None:
    for architecture, model_type in (
        ("Qwen3MoeForCausalLM", "qwen3_moe"), ("Qwen2MoeForCausalLM", "qwen2_moe"),
    ):  # fmt: skip
        assert sparse(card_of(family(architecture, model_type, **QWEN_MOE, **keys))) == expected


def test_the_widest_activation_is_that_of_the_widest_layer() -> None:
    """Two experts of 5 beside a dense layer of 16."""
    card = card_of(family("Qwen3MoeForCausalLM", "qwen3_moe", **QWEN_MOE))
    assert card.max_intermediate_size == 10
    keys = QWEN_MOE | {"mlp_only_layers": [2]}
    assert card_of(family("Qwen3MoeForCausalLM", "qwen3_moe", **keys)).max_intermediate_size == 16


def test_deepseek_begins_with_dense_layers() -> None:
    config = family(
        "DeepseekForCausalLM", "deepseek", n_routed_experts=4, num_experts_per_tok=2,
        n_shared_experts=1, moe_intermediate_size=5, first_k_dense_replace=2, moe_layer_freq=1,
        num_hidden_layers=5,
    )  # fmt: skip
    assert sparse(card_of(config)) == [2, 3, 4]


def test_more_active_experts_than_there_are() -> None:
    config = family("Qwen3MoeForCausalLM", "qwen3_moe", **QWEN_MOE | {"num_experts_per_tok": 5})
    with pytest.raises(BadConfig, match="a token visits 5 experts, but there are 4"):
        card_of(config)


def test_mla_caches_one_latent_for_all_heads() -> None:
    config = family(
        "DeepseekV2ForCausalLM", "deepseek_v2", n_routed_experts=4, num_experts_per_tok=2,
        n_shared_experts=1, moe_intermediate_size=5, first_k_dense_replace=1, moe_layer_freq=1,
        kv_lora_rank=512, q_lora_rank=16, qk_nope_head_dim=2, qk_rope_head_dim=64, v_head_dim=3,
    )  # fmt: skip
    for layer in card_of(config).layers:
        (cache,) = layer.caches
        assert isinstance(cache, Attention)
        assert cache.kind is AttentionKind.MLA
        # 512 of the latent and 64 rotary features, as DeepSeek's own.
        assert (cache.num_kv_heads, cache.head_size, cache.head_size_v) == (1, 576, 0)


def test_hybrid_layers_keep_states_or_caches() -> None:
    """Without `layer_types` every fourth layer of Qwen 3 Next attends."""
    shape = QWEN_MOE | DELTA_NET | {"num_hidden_layers": 8, "shared_expert_intermediate_size": 6}
    config = family("Qwen3NextForCausalLM", "qwen3_next", head_dim=2, **shape)
    card = card_of(config)
    attends = [isinstance(layer.caches[0], Attention) for layer in card.layers]
    assert attends == [False, False, False, True] * 2
    state = card.layers[0].caches[0]
    assert isinstance(state, RecurrentState)
    # Keys 2 x 3 twice and values 4 x 5 through a convolution over 4; a 5 x 3 matrix for each of
    # 4 value heads.
    assert (state.conv_channels, state.conv_kernel) == (32, 4)
    assert (state.heads, state.head_elements) == (4, 15)


def test_heads_that_the_config_gives_are_what_is_cached() -> None:
    card = card_of(llama(head_dim=6))
    (cache,) = card.layers[0].caches
    assert isinstance(cache, Attention)
    assert (cache.num_heads, cache.num_kv_heads, cache.head_size, cache.head_size_v) == (4, 2, 6, 6)
