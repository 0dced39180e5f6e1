"""Parameters of tiny models of each family, counted by hand.

All have hidden size 8, 4 heads and 2 KV heads of 2 features unless they say otherwise, 10 tokens,
and 2 layers.
"""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import DELTA_NET, LLAMA_PARAMETERS, card_of, llama

from model_cards.modules import Experts

# Of 8 hidden features. Attention: q and o 8 x 8, k and v 8 x 4.
ATTENTION = 2 * 64 + 2 * 32
QKV_BIAS = 8 + 4 + 4
MLP = 3 * 8 * 16  # gate, up and down of 16 features
NORM = 8
LAYER_NORM = 2 * 8  # weight and bias
VOCABULARY = 10 * 8

# MLA: 4 heads of 2 + 2 (rotary) features for q and k and 3 for v, a latent of 5, q through 6.
MLA = {
    "kv_lora_rank": 5, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2,
    "v_head_dim": 3, "num_key_value_heads": 4,
}  # fmt: skip
# kv_a 8 x (5 + 2), its norm, kv_b 5 x 4 heads x (2 + 3), o (4 x 3) x 8.
MLA_KV_AND_OUT = 56 + 5 + 100 + 96

EXPERTS = 4
ROUTER = 8 * EXPERTS


def experts(size: int) -> int:
    return EXPERTS * 3 * 8 * size


def family(architecture: str, model_type: str, **changes: Any) -> dict[str, Any]:
    return llama(architectures=[architecture], model_type=model_type, **changes)


CASES: dict[str, tuple[dict[str, Any], int]] = {
    "llama": (llama(), LLAMA_PARAMETERS),
    "llama, tied": (llama(tie_word_embeddings=True), LLAMA_PARAMETERS - VOCABULARY),
    "llama with biases": (
        llama(attention_bias=True, mlp_bias=True),
        # o has one too; gate, up and down.
        LLAMA_PARAMETERS + 2 * (QKV_BIAS + 8 + 16 + 16 + 8),
    ),
    "llama, MHA by default": (
        llama(num_key_value_heads=None), LLAMA_PARAMETERS + 2 * 2 * (64 - 32)
    ),
    "llama with wide heads": (
        # 4 and 2 heads of 6: q and o 8 x 24, k and v 8 x 12.
        llama(head_dim=6), LLAMA_PARAMETERS + 2 * (2 * 192 + 2 * 96 - ATTENTION)
    ),
    "internlm3": (
        family("InternLM3ForCausalLM", "internlm3", qkv_bias=True, bias=False),
        LLAMA_PARAMETERS + 2 * QKV_BIAS,
    ),
    "internlm3 with all biases": (
        family("InternLM3ForCausalLM", "internlm3", qkv_bias=True, bias=True),
        LLAMA_PARAMETERS + 2 * (QKV_BIAS + 8 + 16 + 16 + 8),
    ),
    "mistral": (
        family("MistralForCausalLM", "mistral", sliding_window=None, head_dim=4),
        LLAMA_PARAMETERS + 2 * ATTENTION,  # heads twice as wide: everything of attention doubles
    ),
    "granite": (family("GraniteForCausalLM", "granite"), LLAMA_PARAMETERS),
    "internlm2": (family("InternLM2ForCausalLM", "internlm2", bias=False), LLAMA_PARAMETERS),
    "phi3, fused in the checkpoint": (family("Phi3ForCausalLM", "phi3"), LLAMA_PARAMETERS),
    "qwen2": (family("Qwen2ForCausalLM", "qwen2"), LLAMA_PARAMETERS + 2 * QKV_BIAS),
    "qwen2, tied": (
        family("Qwen2ForCausalLM", "qwen2", tie_word_embeddings=True),
        LLAMA_PARAMETERS + 2 * QKV_BIAS - VOCABULARY,
    ),
    "qwen3": (
        # A norm of the 2 features of a q head, one of a k head.
        family("Qwen3ForCausalLM", "qwen3"), LLAMA_PARAMETERS + 2 * (2 + 2)
    ),
    "qwen3 with wide heads": (
        family("Qwen3ForCausalLM", "qwen3", head_dim=4),
        LLAMA_PARAMETERS + 2 * (ATTENTION + 4 + 4),
    ),
    "gemma": (
        family("GemmaForCausalLM", "gemma", head_dim=4, tie_word_embeddings=None),
        VOCABULARY + 2 * (2 * ATTENTION + MLP + 2 * NORM) + NORM,
    ),
    "gemma2": (
        family("Gemma2ForCausalLM", "gemma2", head_dim=2, tie_word_embeddings=None,
               sliding_window=16),
        VOCABULARY + 2 * (ATTENTION + MLP + 4 * NORM) + NORM,
    ),
    "gemma3": (
        family("Gemma3ForCausalLM", "gemma3_text", head_dim=2, tie_word_embeddings=None,
               sliding_window=16),
        VOCABULARY + 2 * (ATTENTION + 2 + 2 + MLP + 4 * NORM) + NORM,
    ),
    "mixtral": (
        family("MixtralForCausalLM", "mixtral", num_local_experts=4, num_experts_per_tok=2),
        2 * VOCABULARY + 2 * (ATTENTION + ROUTER + experts(16) + 2 * NORM) + NORM,
    ),
    "granite moe": (
        family("GraniteMoeForCausalLM", "granitemoe", num_local_experts=4, num_experts_per_tok=2),
        2 * VOCABULARY + 2 * (ATTENTION + ROUTER + experts(16) + 2 * NORM) + NORM,
    ),
    "phimoe": (
        # LayerNorms with biases, biases in attention and one on the head.
        family("PhiMoEForCausalLM", "phimoe", num_local_experts=4, num_experts_per_tok=2,
               attention_bias=True, lm_head_bias=True),
        2 * VOCABULARY + 10 + LAYER_NORM
        + 2 * (ATTENTION + QKV_BIAS + 8 + ROUTER + experts(16) + 2 * LAYER_NORM),
    ),
    "olmoe": (
        # Norms over all q and all k features.
        family("OlmoeForCausalLM", "olmoe", num_experts=4, num_experts_per_tok=2),
        2 * VOCABULARY + 2 * (ATTENTION + 8 + 4 + ROUTER + experts(16) + 2 * NORM) + NORM,
    ),
    "qwen2 moe": (
        # A shared expert of 6 features behind a gate of one output.
        family("Qwen2MoeForCausalLM", "qwen2_moe", num_experts=4, num_experts_per_tok=2,
               moe_intermediate_size=5, shared_expert_intermediate_size=6),
        2 * VOCABULARY + NORM
        + 2 * (ATTENTION + QKV_BIAS + ROUTER + experts(5) + 3 * 8 * 6 + 8 + 2 * NORM),
    ),
    "qwen3 moe": (
        family("Qwen3MoeForCausalLM", "qwen3_moe", num_experts=4, num_experts_per_tok=2,
               moe_intermediate_size=5),
        2 * VOCABULARY + 2 * (ATTENTION + 4 + ROUTER + experts(5) + 2 * NORM) + NORM,
    ),
    "qwen3 moe with a dense layer": (
        family("Qwen3MoeForCausalLM", "qwen3_moe", num_experts=4, num_experts_per_tok=2,
               moe_intermediate_size=5, mlp_only_layers=[1]),
        2 * VOCABULARY + 2 * (ATTENTION + 4 + 2 * NORM) + ROUTER + experts(5) + MLP + NORM,
    ),
    "ernie moe": (
        # Layer 0 is dense; layer 1 has a correction bias for each expert and 2 shared ones of 5.
        family("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", moe_num_experts=4, moe_k=2,
               moe_intermediate_size=5, moe_num_shared_experts=2, moe_layer_start_index=1,
               moe_layer_interval=1, use_bias=False),
        2 * VOCABULARY + 2 * (ATTENTION + 2 * NORM) + NORM
        + MLP + ROUTER + EXPERTS + experts(5) + 3 * 8 * 10,
    ),
    "minimax m2": (
        # Norms over all q and all k features, a correction bias for each expert.
        family("MiniMaxM2ForCausalLM", "minimax_m2", num_local_experts=4, num_experts_per_tok=2,
               head_dim=2, use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True,
               use_mtp=False, num_mtp_modules=0),
        2 * VOCABULARY + NORM
        + 2 * (ATTENTION + 8 + 4 + ROUTER + EXPERTS + experts(16) + 2 * NORM),
    ),
    "deepseek": (
        # GQA; layer 0 dense, layer 1 with 2 shared experts of 5 as one of 10.
        family("DeepseekForCausalLM", "deepseek", n_routed_experts=4, num_experts_per_tok=2,
               n_shared_experts=2, moe_intermediate_size=5, first_k_dense_replace=1,
               moe_layer_freq=1),
        2 * VOCABULARY + 2 * (ATTENTION + 2 * NORM) + NORM
        + MLP + ROUTER + experts(5) + 3 * 8 * 10,
    ),
    "deepseek v2 lite": (
        # q straight from the hidden state: 8 x 4 heads x (2 + 2).
        family("DeepseekV2ForCausalLM", "deepseek_v2", n_routed_experts=4, num_experts_per_tok=2,
               n_shared_experts=2, moe_intermediate_size=5, first_k_dense_replace=1,
               moe_layer_freq=1, **MLA) | {"q_lora_rank": None},
        2 * VOCABULARY + 2 * (128 + MLA_KV_AND_OUT + 2 * NORM) + NORM
        + MLP + ROUTER + experts(5) + 3 * 8 * 10,
    ),
    "deepseek v3": (
        # q through 6 features: 8 x 6, a norm, 6 x 16; a correction bias for each expert.
        family("DeepseekV3ForCausalLM", "deepseek_v3", n_routed_experts=4, num_experts_per_tok=2,
               n_shared_experts=1, moe_intermediate_size=5, first_k_dense_replace=1,
               moe_layer_freq=1, topk_method="noaux_tc", q_lora_rank=6, **MLA),
        2 * VOCABULARY + 2 * (48 + 6 + 96 + MLA_KV_AND_OUT + 2 * NORM) + NORM
        + MLP + ROUTER + EXPERTS + experts(5) + 3 * 8 * 5,
    ),
    "glm 4.5": (
        # Biases of q, k and v, norms of q and k heads, a correction bias for each expert.
        family("Glm4MoeForCausalLM", "glm4_moe", n_routed_experts=4, num_experts_per_tok=2,
               n_shared_experts=1, moe_intermediate_size=5, first_k_dense_replace=1, head_dim=2,
               attention_bias=True, use_qk_norm=True),
        2 * VOCABULARY + 2 * (ATTENTION + QKV_BIAS + 4 + 2 * NORM) + NORM
        + MLP + ROUTER + EXPERTS + experts(5) + 3 * 8 * 5,
    ),
    "gpt-oss": (
        # Biases everywhere, a sink for each head.
        family("GptOssForCausalLM", "gpt_oss", num_local_experts=4, num_experts_per_tok=2,
               head_dim=2, sliding_window=8),
        2 * VOCABULARY + NORM
        + 2 * (ATTENTION + QKV_BIAS + 8 + 4 + ROUTER + EXPERTS
               + experts(16) + EXPERTS * (2 * 16 + 8) + 2 * NORM),
    ),
    "cohere": (
        # One norm without a bias in a layer.
        family("CohereForCausalLM", "cohere", tie_word_embeddings=None),
        VOCABULARY + 2 * (ATTENTION + MLP + NORM) + NORM,
    ),
    "cohere with norms of all heads": (
        family("CohereForCausalLM", "cohere", tie_word_embeddings=None, use_qk_norm=True),
        VOCABULARY + 2 * (ATTENTION + 8 + 4 + MLP + NORM) + NORM,
    ),
    "cohere2": (
        family("Cohere2ForCausalLM", "cohere2", tie_word_embeddings=None, head_dim=2,
               sliding_window=16, sliding_window_pattern=4),
        VOCABULARY + 2 * (ATTENTION + MLP + NORM) + NORM,
    ),
    "glm": (
        family("GlmForCausalLM", "glm", attention_bias=True, head_dim=2),
        LLAMA_PARAMETERS + 2 * QKV_BIAS,
    ),
    "glm4": (
        # Four norms.
        family("Glm4ForCausalLM", "glm4", attention_bias=True, head_dim=2),
        LLAMA_PARAMETERS + 2 * (QKV_BIAS + 2 * NORM),
    ),
    "seed-oss": (
        family("SeedOssForCausalLM", "seed_oss", attention_bias=True, attention_out_bias=False,
               head_dim=2),
        LLAMA_PARAMETERS + 2 * QKV_BIAS,
    ),
    "smollm3": (
        family("SmolLM3ForCausalLM", "smollm3", tie_word_embeddings=None),
        LLAMA_PARAMETERS - VOCABULARY,
    ),
    "olmo2": (
        # Norms over all q and all k features; two behind attention and MLP.
        family("Olmo2ForCausalLM", "olmo2"), LLAMA_PARAMETERS + 2 * (8 + 4)
    ),
    "exaone4": (
        family("Exaone4ForCausalLM", "exaone4", head_dim=2, sliding_window=None),
        LLAMA_PARAMETERS + 2 * (2 + 2),
    ),
    "starcoder2": (
        # Biases everywhere, up and down without a gate.
        family("Starcoder2ForCausalLM", "starcoder2", use_bias=True, tie_word_embeddings=None,
               sliding_window=None),
        VOCABULARY + LAYER_NORM
        + 2 * (ATTENTION + QKV_BIAS + 8 + 2 * 8 * 16 + 16 + 8 + 2 * LAYER_NORM),
    ),
    "phi": (
        # One LayerNorm in a layer, biases everywhere, on the head too.
        family("PhiForCausalLM", "phi", num_key_value_heads=None),
        2 * VOCABULARY + 10 + LAYER_NORM
        + 2 * (4 * 64 + 4 * 8 + 2 * 8 * 16 + 16 + 8 + LAYER_NORM),
    ),
    "stablelm": (
        family("StableLmForCausalLM", "stablelm", use_qkv_bias=True),
        2 * VOCABULARY + LAYER_NORM + 2 * (ATTENTION + QKV_BIAS + MLP + 2 * LAYER_NORM),
    ),
    "falcon 7b": (
        # One KV head: (4 + 2) x 2 outputs; an MLP of 4 x 8; one LayerNorm for both.
        family("FalconForCausalLM", "falcon", multi_query=True, parallel_attn=True, bias=False,
               new_decoder_architecture=False, tie_word_embeddings=None, num_key_value_heads=None),
        VOCABULARY + LAYER_NORM + 2 * (8 * 12 + 64 + 2 * 8 * 32 + LAYER_NORM),
    ),
    "gpt2": (
        # 16 learned positions; qkv, output and an MLP of 4 x 8, all with biases.
        {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 8, "n_head": 4,
         "n_layer": 2, "n_positions": 16, "n_inner": None, "vocab_size": 10},
        VOCABULARY + 16 * 8 + LAYER_NORM
        + 2 * (8 * 24 + 24 + 64 + 8 + 8 * 32 + 32 + 32 * 8 + 8 + 2 * LAYER_NORM),
    ),
    "opt": (
        # 64 learned positions and an offset of 2.
        family("OPTForCausalLM", "opt", ffn_dim=16, word_embed_proj_dim=8,
               do_layer_norm_before=True, tie_word_embeddings=True, intermediate_size=None,
               num_key_value_heads=None, enable_bias=True, layer_norm_elementwise_affine=True),
        VOCABULARY + 66 * 8 + LAYER_NORM
        + 2 * (4 * (64 + 8) + 2 * 8 * 16 + 16 + 8 + 2 * LAYER_NORM),
    ),
    "mimo": (
        family("MiMoForCausalLM", "mimo", num_nextn_predict_layers=0),
        LLAMA_PARAMETERS + 2 * QKV_BIAS,
    ),
    "nemotron nas": (
        # Layer 0 has 4 / 2 KV heads and no MLP; layer 1 an MLP alone, of 2 x 2 x 8 / 3 features,
        # rounded up to 256. Each part has its norm.
        family("DeciLMForCausalLM", "nemotron-nas", intermediate_size=None,
               num_key_value_heads=None, block_configs=[
            {"attention": {"n_heads_in_group": 2, "no_op": False, "replace_with_linear": False},
             "ffn": {"ffn_mult": None, "no_op": True, "replace_with_linear": False}},
            {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False},
             "ffn": {"ffn_mult": 2.0, "no_op": False, "replace_with_linear": False}}]),
        2 * VOCABULARY + ATTENTION + NORM + 3 * 8 * 256 + NORM + NORM,
    ),
    "mamba": (
        # 16 inner features: in 8 x 32, a convolution over 4 with a bias, x 16 x (2 + 2 x 4),
        # dt 2 x 16 with a bias, A 16 x 4, D, out 16 x 8.
        {"architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 8,
         "intermediate_size": 16, "expand": 2, "state_size": 4, "conv_kernel": 4,
         "time_step_rank": 2, "use_conv_bias": True, "use_bias": False, "num_hidden_layers": 2,
         "vocab_size": 10, "tie_word_embeddings": True, "torch_dtype": "float32"},
        VOCABULARY + NORM
        + 2 * (256 + 16 * 4 + 16 + 16 * 10 + 2 * 16 + 16 + 64 + 16 + 128 + NORM),
    ),
    "mamba2": (
        # 4 heads of 4, 2 groups of 4 states: in 8 x (2 x 16 + 2 x 8 + 4), a convolution of
        # 16 + 2 x 8 channels over 4 with a bias, A, D and dt for each head, a norm, out 16 x 8.
        {"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": 8,
         "expand": 2, "head_dim": 4, "num_heads": 4, "n_groups": 2, "state_size": 4,
         "conv_kernel": 4, "use_conv_bias": True, "use_bias": False, "num_hidden_layers": 2,
         "vocab_size": 10, "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
        2 * VOCABULARY + NORM + 2 * (8 * 52 + 32 * 4 + 32 + 3 * 4 + 16 + 128 + NORM),
    ),
    "lfm2": (
        # Layer 0 convolves 3 tokens: in 8 x 24, 8 x 3, out 8 x 8; layer 1 attends, with norms of
        # q and k heads.
        family("Lfm2ForCausalLM", "lfm2", layer_types=["conv", "full_attention"], conv_L_cache=3,
               conv_bias=False, block_auto_adjust_ff_dim=False, block_ff_dim=16,
               tie_word_embeddings=True),
        VOCABULARY + NORM + 192 + 24 + 64 + ATTENTION + 4 + 2 * (MLP + 2 * NORM),
    ),
    "qwen3 next": (
        # Layer 0, gated delta net: keys 2 x 3, values 4 x 5. Convolution (6 + 6 + 20) x 4, in
        # 8 x (6 + 6 + 20 + 20), b and a 8 x (4 + 4), dt and A for 4 heads, a norm of 5, out 20 x 8.
        # Layer 1: q twice as wide for the gate, norms of q and k heads.
        # Both: experts of 5, a shared one of 6 behind a gate.
        family("Qwen3NextForCausalLM", "qwen3_next", head_dim=2, num_experts=4,
               num_experts_per_tok=2, moe_intermediate_size=5, shared_expert_intermediate_size=6,
               layer_types=["linear_attention", "full_attention"], **DELTA_NET),
        2 * VOCABULARY + NORM
        + (128 + 8 * 52 + 64 + 4 + 4 + 5 + 160)
        + (ATTENTION + 64 + 4)
        + 2 * (ROUTER + experts(5) + 3 * 8 * 6 + 8 + 2 * NORM),
    ),
    "qwen3.5 without a tower": (
        family("Qwen3_5ForCausalLM", "qwen3_5_text", head_dim=2,
               layer_types=["linear_attention", "full_attention"], **DELTA_NET),
        2 * VOCABULARY + NORM
        + (128 + 8 * 52 + 64 + 4 + 4 + 5 + 160)
        + (ATTENTION + 64 + 4)
        + 2 * (MLP + 2 * NORM),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "parameters"), CASES.values(), ids=CASES.keys())
def test_parameters(config: dict[str, Any], parameters: int) -> None:
    card = card_of(config)
    assert card.exact
    assert card.parameters == parameters


# Elements that vLLM's classes keep in fp32 whatever the model's dtype is: routers, their correction
# biases, the decay of recurrent layers.
IN_FP32 = {
    "ernie moe": ROUTER + EXPERTS,
    "minimax m2": 2 * (ROUTER + EXPERTS),
    "deepseek v3": EXPERTS,
    "glm 4.5": ROUTER + EXPERTS,
    "mamba": 2 * 64,
    "mamba2": 2 * 4,
    "qwen3 next": 4,
    "qwen3.5 without a tower": 4,
}
# The MTP head of Qwen3-Next: attention and experts as in layer 1, a projection of two hidden states
# and three norms. It shares both vocabulary matrices.
MTP = {
    "qwen3 next": ATTENTION + 64 + 4 + ROUTER + experts(5) + 3 * 8 * 6 + 8 + 2 * NORM
    + 2 * 64 + 3 * NORM,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_an_unquantized_checkpoint(name: str) -> None:
    config, parameters = CASES[name]
    stored = parameters + MTP.get(name, 0)
    card = card_of(config | {"torch_dtype": "float32"})
    assert (card.quantization, card.weight_bytes) == (None, 4 * stored)
    card = card_of(config | {"torch_dtype": "float16"})
    assert card.weight_bytes == 2 * stored + 2 * IN_FP32.get(name, 0)


def test_mtp_heads_are_drafts_and_no_part_of_the_model() -> None:
    heads = {name: len(card_of(config).drafts) for name, (config, _) in CASES.items()}
    assert {name for name, count in heads.items() if count} == MTP.keys()


def test_active_parameters_of_a_dense_model() -> None:
    """All but the embedding, which is looked up."""
    assert card_of(llama()).active_parameters == LLAMA_PARAMETERS - VOCABULARY
    # A tied one is multiplied with as the head.
    tied = card_of(llama(tie_word_embeddings=True))
    assert tied.active_parameters == LLAMA_PARAMETERS - VOCABULARY


def test_active_parameters_of_a_sparse_model() -> None:
    """Of 4 experts a token meets 2."""
    config, parameters = CASES["qwen2 moe"]
    card = card_of(config)
    assert (card.is_moe, card.experts_per_token) == (True, 2)
    assert card.active_parameters == parameters - VOCABULARY - 2 * experts(5) // 2


def test_layers_that_are_the_same_are_one_object() -> None:
    card = card_of(llama(num_hidden_layers=40))
    assert card.num_layers == 40
    assert len({id(layer) for layer in card.layers}) == 1


def test_experts_know_their_shape() -> None:
    card = card_of(CASES["qwen3 moe"][0])
    (routed,) = (m for m in card.layers[0].modules if isinstance(m, Experts))
    assert (routed.count, routed.active, routed.hidden, routed.intermediate) == (4, 2, 8, 5)
    assert routed.elements == experts(5)
