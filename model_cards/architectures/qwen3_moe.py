"""Qwen 2 MoE and Qwen 3 MoE: routed experts, some layers dense, Qwen 2 with a shared expert."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    decoder,
)
from model_cards.architectures.qwen2 import windows
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Linear, Module, Output, Shard
from model_cards.quantization.formats import UNQUANTIZED
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(config: Config, scheme: QuantScheme, *, root: str = "") -> Body:
    """The language model, whose modules have paths below `root`."""
    qwen2 = config.model_type == "qwen2_moe"
    experts, active = config.integer("num_experts"), config.integer("num_experts_per_tok")
    expert_size = config.integer("moe_intermediate_size")
    shared = config.integer("shared_expert_intermediate_size", 0, minimum=0)
    dense_size = config.integer("intermediate_size", expert_size)
    step = config.integer("decoder_sparse_step", 1)
    dense_layers = frozenset(config.integers("mlp_only_layers"))
    bias = config.boolean("qkv_bias" if qwen2 else "attention_bias", qwen2)
    window = windows(config)

    def is_sparse(index: int) -> bool:
        return index not in dense_layers and (index + 1) % step == 0

    def moe(b: LayerBuilder) -> list[Module]:
        modules: list[Module] = [b.replicated("mlp.gate", b.hidden, experts)]
        if shared:
            gate = (Output("shared_expert_gate", 1),)
            modules += [
                Linear(
                    "mlp.shared_expert_gate", b.hidden, gate, Shard.REPLICATED, False, UNQUANTIZED
                ),
                *b.gated_mlp(shared, "mlp.shared_expert"),
            ]
        renormalized = config.boolean("norm_topk_prob", not qwen2)
        return [*modules, b.experts(experts, active, expert_size, trtllm=renormalized)]

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias, qk_norm=not qwen2),
                *(moe(b) if is_sparse(index) else b.gated_mlp(dense_size)),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(window[index]),),
        )

    dense = dense_size if any(not is_sparse(i) for i in range(config.num_layers)) else 0
    return decoder(
        config,
        scheme,
        layer,
        width=max(dense, shared, active * expert_size),
        active=active,
        kind=lambda i: (is_sparse(i), window[i]),
        root=root,
        vocabulary_on_every_stage=True,
    )
