"""Llama 4: chunked local attention with full layers in between, sparse MoE, a vision tower.

Full layers have no rotary embedding. Every layer is sparse in Scout, every other one in Maverick.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    sequence_parallel,
    tied_embeddings,
    vocabulary,
)
from model_cards.architectures.towers.llama4 import vision_towers
from model_cards.caches import Attention, AttentionKind
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text = config.text
    step = text.integer("interleave_moe_layer_step", 1, minimum=0)
    dense_size = text.integer("intermediate_size_mlp", 16384)
    active, expert_size = text.integer("num_experts_per_tok", 1), text.integer("intermediate_size")
    ropes = _rope_layers(text)
    chunk = text.integer("attention_chunk_size", 8192) if _chunked(text) else None

    def is_sparse(index: int) -> bool:
        return step > 0 and (index + 1) % step == 0

    def moe(b: LayerBuilder) -> list[Module]:
        experts = text.integer("num_local_experts", 16)
        return [
            b.router(experts, "feed_forward.router"),
            *sequence_parallel(b.gated_mlp(expert_size, "feed_forward.shared_expert")),
            b.experts(experts, active, expert_size, "feed_forward.experts"),
        ]

    def attention(b: LayerBuilder, index: int) -> list[Module]:
        modules = b.attention()
        if ropes[index] and text.boolean("use_qk_norm", True):
            # A norm without weights keeps a vector of ones in fp32.
            modules.append(Buffer("self_attn.qk_norm", text.head_size, "float32"))
        return modules

    def cache(b: LayerBuilder, index: int) -> Attention:
        if ropes[index] and chunk is not None:
            return replace(b.cache(), kind=AttentionKind.CHUNKED, window=chunk)
        return b.cache()

    def layer(b: LayerBuilder, index: int) -> Layer:
        ffn = moe(b) if is_sparse(index) else b.gated_mlp(dense_size, "feed_forward")
        norms = [b.norm("input_layernorm"), b.norm("post_attention_layernorm")]
        return Layer((*attention(b, index), *ffn, *norms), (cache(b, index),))

    embedding, head = vocabulary(
        text, scheme, tied=tied_embeddings(text, False), head="language_model.lm_head"
    )
    return Body(
        embedding,
        assemble(
            text,
            scheme,
            layer,
            kind=lambda index: (ropes[index], is_sparse(index)),
            root="language_model.model.layers",
        ),
        (Tensor("model.norm", (text.integer("hidden_size"),)),),
        head,
        (rotary_cache(text),),
        max_intermediate_size=max(0 if step == 1 else dense_size, active * expert_size),
        experts_per_token=active,
        towers=vision_towers(config),
    )


def _rope_layers(text: Config) -> tuple[bool, ...]:
    """Which layers have a rotary embedding: all but every fourth, unless `no_rope_layers` says."""
    flags = text.integers("no_rope_layers")  # 1 with, 0 without, whatever the name says
    if not flags:
        interval = text.integer("no_rope_layer_interval", 4)
        return tuple((index + 1) % interval != 0 for index in range(text.num_layers))
    if len(flags) != text.num_layers:
        raise text.fail("no_rope_layers", f"one entry for each of {text.num_layers} layers")
    return tuple(flag != 0 for flag in flags)


def _chunked(text: Config) -> bool:
    """Whether local layers attend in chunks: `attention_chunk_size` is null where they do not."""
    return not text.names("attention_chunk_size") or "attention_chunk_size" in text
