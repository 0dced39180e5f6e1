"""MiniMax M3: attention to blocks that an indexer picks, dense first layers, a vision tower.

A sparse layer's indexer has as many query heads as there are KV heads and one key, in a cache of
its own; both projections are fused with those of q, k and v.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    ATTENTION_SCALES,
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    vocabulary,
)
from model_cards.architectures.towers.minimax_vl import vision_tower
from model_cards.caches import Attention, AttentionKind, Cache
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_INDEX_KEY_BYTES = 2  # of each feature: bf16 whatever the model's dtype
_ACTIVATION_PARAMETERS = 3  # of SwiGLU as OpenAI has it: alpha, beta and a limit
_SCALED_PARAMETERS = 2  # beta and the limit


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text, vision = config.text, config.section("vision_config")
    root = "language_model." if vision is not None else ""
    sparse, moe = _sparse_layers(text), _moe_layers(text)
    embedding, head = vocabulary(text, scheme, tied=False, head=f"{root}lm_head")
    active = text.integer("num_experts_per_tok")
    return Body(
        embedding,
        assemble(
            text,
            scheme,
            lambda b, index: _layer(b, sparse=sparse[index], moe=moe[index]),
            kind=lambda index: (sparse[index], moe[index]),
            root=f"{root}model.layers",
        ),
        (Tensor("model.norm", (text.integer("hidden_size"),)),),
        head,
        (rotary_cache(text),),
        max_intermediate_size=max(
            text.integer("dense_intermediate_size"), active * text.integer("intermediate_size")
        ),
        experts_per_token=active,
        towers=(vision_tower(config, vision, scheme),) if vision is not None else (),
        drafts=_drafts(text, scheme),
    )


def _sparse_layers(text: Config) -> tuple[bool, ...]:
    settings = text.section("sparse_attention_config")
    return _flags(text, settings, "sparse_attention_freq", absent=False)


def _moe_layers(text: Config) -> tuple[bool, ...]:
    return _flags(text, text, "moe_layer_freq", absent=True)


def _flags(text: Config, section: Config | None, key: str, *, absent: bool) -> tuple[bool, ...]:
    """For every layer, whether a list of 0 and 1 says so; `absent` where there is no list."""
    if section is None or key not in section:
        return (absent,) * text.num_layers
    flags = section.integers(key)
    if len(flags) < text.num_layers:
        raise section.fail(key, f"one entry for each of {text.num_layers} layers")
    return tuple(flag != 0 for flag in flags)


def _layer(b: LayerBuilder, *, sparse: bool, moe: bool) -> Layer:
    ffn = _experts(b) if moe else b.gated_mlp(b.config.integer("dense_intermediate_size"))
    modules = [
        *(_sparse_attention(b) if sparse else b.attention(qk_norm=True)),
        *ffn,
        b.norm("input_layernorm"),
        b.norm("post_attention_layernorm"),
    ]
    return Layer(tuple(modules), _sparse_caches(b) if sparse else (b.cache(),))


def _settings(config: Config) -> Config:
    settings = config.section("sparse_attention_config")
    if settings is None:
        raise config.fail("sparse_attention_config", "an object")
    return settings


def _sparse_attention(b: LayerBuilder) -> list[Module]:
    """vLLM's `MiniMaxM3SparseAttention`."""
    config, settings = b.config, _settings(b.config)
    heads, kv_heads, size = (
        config.integer("num_attention_heads"),
        config.num_kv_heads,
        config.head_size,
    )
    if settings.integer("sparse_num_index_heads") != kv_heads:
        raise settings.fail("sparse_num_index_heads", f"{kv_heads}, the KV heads")
    index = settings.integer("sparse_index_dim")
    outputs = (
        Output("q_proj", heads, size),
        Output("k_proj", kv_heads, size, replicable=True),
        Output("v_proj", kv_heads, size, replicable=True),
        Output("index_q_proj", kv_heads, index, replicable=True),
        Output("index_k_proj", 1, index, replicable=True),
    )
    parts = ("q_proj", "k_proj", "v_proj")
    return [
        b.linear("self_attn.qkv_proj", b.hidden, outputs, Shard.COLUMN, parts=parts),
        b.row("self_attn.o_proj", heads * size, b.hidden),
        ATTENTION_SCALES,
        *(b.norm(f"self_attn.{name}_norm", size) for name in ("q", "k")),
        *(b.norm(f"self_attn.index_{name}_norm", index) for name in ("q", "k")),
    ]


def _sparse_caches(b: LayerBuilder) -> tuple[Cache, ...]:
    settings = _settings(b.config)
    block = settings.integer("sparse_block_size")
    key_bytes = _INDEX_KEY_BYTES * settings.integer("sparse_index_dim")
    picked = settings.integer("sparse_topk_blocks")
    indexer = Attention(
        b.config.num_kv_heads, 1, key_bytes, 0, AttentionKind.INDEXER, sparse_block=block
    )
    return (indexer, replace(b.cache(), index_topk=picked, sparse_block=block))


def _experts(b: LayerBuilder) -> list[Module]:
    """Sigmoid routing in fp32 with a bias for each expert, shared experts as one MLP."""
    config, name = b.config, "block_sparse_moe"
    experts, size = config.integer("num_local_experts"), config.integer("intermediate_size")
    modules: list[Module] = [b.router(experts, f"{name}.gate", fp32=True)]
    if config.boolean("use_routing_bias", False):
        modules.append(Tensor(f"{name}.e_score_correction_bias", (experts,), "float32"))
    shared = config.integer("n_shared_experts", 0, minimum=0)
    if shared:
        modules += b.gated_mlp(shared * size, f"{name}.shared_experts")
    active = config.integer("num_experts_per_tok")
    routed = b.experts(experts, active, size, f"{name}.experts", trtllm=False)
    modules.append(
        replace(
            routed,
            activation_parameters=_ACTIVATION_PARAMETERS,
            scaled_parameters=_SCALED_PARAMETERS,
        )
    )
    return modules


def _drafts(text: Config, scheme: QuantScheme) -> tuple[Draft, ...]:
    """The MTP layers: sparse ones behind a projection."""
    count = text.integer("num_mtp_modules", 0, minimum=0)
    layers: list[Layer] = []
    around: list[Module] = []
    for index in range(count):
        b = LayerBuilder(text, scheme, f"model.layers.{index}")
        layers.append(_layer(b, sparse=True, moe=True))
        around += [
            b.norm("enorm"),
            b.norm("hnorm"),
            b.replicated("eh_proj", 2 * b.hidden, b.hidden),
            b.norm("final_layernorm"),
        ]
    if not count:
        return ()
    return (Draft("mtp", tuple(layers), tuple(around), rotary=(rotary_cache(text),)),)
