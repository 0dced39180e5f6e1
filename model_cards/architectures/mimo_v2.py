"""MiMo V2 Flash: sliding layers with sinks between full ones, keys wider than values, sparse MoE.

Full and sliding layers have heads of their own number and size.
"""

from __future__ import annotations

from msgspec import Struct

from model_cards.architectures.decoder import (
    ATTENTION_SCALES,
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    vocabulary,
)
from model_cards.caches import Attention, AttentionKind
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_ROPE_THETA = 1_000_000.0  # vLLM's default


class _Heads(Struct, frozen=True):
    """The attention of one kind of layer."""

    queries: int
    kv: int
    size: int
    value_size: int
    window: int | None
    sinks: bool


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    slides = _flags(config, "hybrid_layer_pattern")
    sparse = _flags(config, "moe_layer_freq")
    dense_size = config.integer("intermediate_size")
    active = config.integer("num_experts_per_tok") if any(sparse) else 0
    expert_size = config.integer("moe_intermediate_size") if any(sparse) else 0

    def moe(b: LayerBuilder) -> list[Module]:
        experts = config.integer("n_routed_experts")
        fp32 = config.string("moe_router_dtype", "float32") == "float32"
        return [
            b.router(experts, fp32=fp32),
            Tensor("mlp.gate.e_score_correction_bias", (experts,), "float32"),
            b.experts(experts, active, expert_size),
        ]

    def layer(b: LayerBuilder, index: int) -> Layer:
        heads = _heads(config, sliding=slides[index])
        modules = (
            *_attention(b, heads),
            *(moe(b) if sparse[index] else b.gated_mlp(dense_size)),
            b.norm("input_layernorm"),
            b.norm("post_attention_layernorm"),
        )
        return Layer(modules, (_cache(heads),))

    embedding, head = vocabulary(config, scheme, tied=False)
    tables = dict.fromkeys(_rotary(config, sliding=sliding) for sliding in slides)
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: (slides[index], sparse[index])),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        tuple(tables),
        max_intermediate_size=max(dense_size, active * expert_size),
        experts_per_token=active,
        drafts=(_mtp(config, scheme),),
    )


def _flags(config: Config, key: str) -> tuple[bool, ...]:
    """A list of 0 and 1 for every layer."""
    flags = config.integers(key)
    if len(flags) != config.num_layers:
        raise config.fail(key, f"one entry for each of {config.num_layers} layers")
    return tuple(flag != 0 for flag in flags)


def _heads(config: Config, *, sliding: bool) -> _Heads:
    swa = "swa_" if sliding else ""
    size = config.integer(f"{swa}head_dim")
    return _Heads(
        config.integer(f"{swa}num_attention_heads"),
        config.integer(f"{swa}num_key_value_heads"),
        size,
        config.integer(f"{swa}v_head_dim", size),
        config.integer("sliding_window_size") if sliding else None,
        sinks=sliding and config.boolean("add_swa_attention_sink_bias", False),
    )


def _attention(b: LayerBuilder, heads: _Heads, *, quantized_output: bool = True) -> list[Module]:
    bias = b.config.boolean("attention_bias", False)
    qkv = [
        Output("q_proj", heads.queries, heads.size),
        Output("k_proj", heads.kv, heads.size, replicable=True),
        Output("v_proj", heads.kv, heads.value_size, replicable=True),
    ]
    modules: list[Module] = [
        b.linear(
            "self_attn.qkv_proj",
            b.hidden,
            qkv,
            Shard.COLUMN,
            bias=bias,
            parts=[output.name for output in qkv],
        ),
        b.linear(
            "self_attn.o_proj",
            heads.queries * heads.value_size,
            [Output("o_proj", b.hidden)],
            Shard.ROW,
            quantized=quantized_output,
        ),
        ATTENTION_SCALES,
    ]
    if heads.sinks:
        modules.append(Tensor("self_attn.attention_sink_bias", (heads.queries,), sharded=True))
    return modules


def _cache(heads: _Heads) -> Attention:
    return Attention(
        heads.queries,
        heads.kv,
        heads.size,
        heads.value_size,
        AttentionKind.FULL if heads.window is None else AttentionKind.SLIDING,
        heads.window,
        sinks=heads.sinks,
    )


def _rotary(config: Config, *, sliding: bool) -> RotaryCache:
    theta = config.number("rope_theta", _ROPE_THETA)
    if sliding:
        theta = config.number("swa_rope_theta", theta)
    rope = Config({"rope_theta": theta}, f"{config.where}: rope")
    return rotary_cache(config, rope=rope, size=_heads(config, sliding=sliding).size)


def _mtp(config: Config, scheme: QuantScheme) -> Draft:
    """The first MTP layer, a dense one with a sliding window: vLLM loads no more of them."""
    b = LayerBuilder(config, scheme, "model.mtp.layers.0")
    heads = _heads(config, sliding=True)
    modules = (
        *_attention(b, heads, quantized_output=False),
        *b.gated_mlp(config.integer("intermediate_size")),
        b.norm("input_layernorm"),
        b.norm("pre_mlp_layernorm"),
    )
    around = (
        b.norm("enorm"),
        b.norm("hnorm"),
        b.replicated("eh_proj", 2 * b.hidden, b.hidden, quantized=False),
        b.norm("final_layernorm"),
    )
    return Draft(
        "mtp", (Layer(modules, (_cache(heads),)),), around, rotary=(_rotary(config, sliding=True),)
    )
