"""Gemma 4: two head sizes, layers that reuse the cache of an earlier one, per-layer embeddings.

Full-attention layers have wider and fewer KV heads, and may share one matrix for keys and values.
The small models (E2B, E4B) embed every token once for each layer. The MoE model has experts beside
the MLP of every layer.
"""

from __future__ import annotations

from model_cards.architectures.decoder import (
    ATTENTION_SCALES,
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    vocabulary,
)
from model_cards.architectures.towers.gemma4 import audio_tower, vision_tower
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, Embedding, Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

# vLLM's longest video: 32 frames of 70 tokens, a time stamp and two delimiters.
_VIDEO_TOKENS = 32 * (70 + 6 + 2)
# Scalars of the model object: the embedding's normalizer, and three for per-layer embeddings.
_SCALARS, _PER_LAYER_SCALARS = 1, 3


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text, vision = config.text, config.section("vision_config")
    full = _full_attention(text)
    experts = text.integer("num_experts", 0, minimum=0)
    per_layer = text.integer("hidden_size_per_layer_input", 0, minimum=0)

    def layer(b: LayerBuilder, index: int) -> Layer:
        own = LayerBuilder(full if _is_full(text, index) else text, scheme, b.path)
        return _layer(own, text, index, experts, per_layer)

    embedding, head = vocabulary(text, scheme, tied=text.boolean("tie_word_embeddings", True))
    active = text.integer("top_k_experts") if experts else 0
    both_ways = text.string("use_bidirectional_attention", "") == "vision"
    audio, hidden = config.section("audio_config"), text.integer("hidden_size")
    towers = [] if vision is None else [vision_tower(vision, scheme, hidden)]
    if audio is not None:
        towers.append(audio_tower(audio, scheme, hidden))
    widest = _mlp_width(text, text.num_layers - 1)
    if experts:
        widest = max(widest, active * _expert_width(text))
    return Body(
        embedding,
        assemble(
            text,
            scheme,
            layer,
            kind=lambda index: (_is_full(text, index), shares_cache(text, index)),
            root="model.language_model.layers",
        ),
        (Tensor("norm", (text.integer("hidden_size"),)),),
        head,
        _rotary(text, full),
        max_intermediate_size=widest,
        experts_per_token=active,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
        beside=_beside(text, scheme, per_layer),
        batch_elements=per_layer * text.num_layers,
        multimodal_prefix=both_ways,
        largest_item_tokens=_VIDEO_TOKENS if both_ways else 0,
        towers=tuple(towers),
    )


def _is_full(text: Config, index: int) -> bool:
    types = text.strings("layer_types")
    if len(types) != text.num_layers:
        raise text.fail("layer_types", f"one entry for each of {text.num_layers} layers")
    return types[index] == "full_attention"


def _full_attention(text: Config) -> Config:
    """The config as a full-attention layer sees it.

    transformers 5 writes out what each layer has of its own; full attention is alike in all.
    """
    layers = text.section("per_layer_config")
    if layers is not None:
        full = [str(index) for index in range(text.num_layers) if _is_full(text, index)]
        found = [layer for index in full if (layer := layers.section(index)) is not None]
        return text.merged({key: found[0].raw(key) for key in found[0]}) if found else text
    own = {"head_dim": text.integer("global_head_dim", text.head_size)}
    if text.boolean("attention_k_eq_v", False) and "num_global_key_value_heads" in text:
        own["num_key_value_heads"] = text.integer("num_global_key_value_heads")
    return text.merged(own)


def shares_cache(text: Config, index: int) -> bool:
    """Whether a layer attends to the cache of an earlier one and has no keys and values itself."""
    shared = text.integer("num_kv_shared_layers", 0, minimum=0)
    return shared > 0 and index >= text.num_layers - shared


def _mlp_width(text: Config, index: int) -> int:
    wide = text.boolean("use_double_wide_mlp", False) and shares_cache(text, index)
    return text.integer("intermediate_size") * (2 if wide else 1)


def _expert_width(text: Config) -> int:
    return text.integer("moe_intermediate_size", text.integer("expert_intermediate_size", 1))


def _layer(b: LayerBuilder, text: Config, index: int, experts: int, per_layer: int) -> Layer:
    full, shared = _is_full(text, index), shares_cache(text, index)
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules = [
        *_attention(b, full=full, shared=shared),
        *b.gated_mlp(_mlp_width(text, index)),
        *(b.norm(f"{name}_layernorm") for name in norms),
        Tensor("layer_scalar", (1,)),
    ]
    if experts:
        modules += _experts(b, text, experts)
    if per_layer:
        modules += [
            b.replicated("per_layer_input_gate", b.hidden, per_layer),
            b.replicated("per_layer_projection", per_layer, b.hidden),
            b.norm("post_per_layer_input_norm"),
        ]
    window = None if full else text.integer("sliding_window")
    return Layer(tuple(modules), () if shared else (b.cache(window),))


def _attention(b: LayerBuilder, *, full: bool, shared: bool) -> list[Module]:
    config = b.config
    heads, kv_heads, size = (
        config.integer("num_attention_heads"),
        config.num_kv_heads,
        config.head_size,
    )
    bias = config.boolean("attention_bias", False)
    query = Output("q_proj", heads, size)
    out: list[Module] = [
        b.row("self_attn.o_proj", heads * size, b.hidden, bias=bias),
        b.norm("self_attn.q_norm", size),
        ATTENTION_SCALES,
    ]
    if shared:
        return [b.linear("self_attn.q_proj", b.hidden, [query], Shard.COLUMN, bias=bias), *out]
    one_matrix = full and config.boolean("attention_k_eq_v", False)
    parts = ("q_proj", "k_proj") if one_matrix else ("q_proj", "k_proj", "v_proj")
    qkv = [
        query,
        Output("k_proj", kv_heads, size, replicable=True),
        # vLLM copies the keys' matrix where the checkpoint has none for values.
        Output("v_proj", kv_heads, size, replicable=True, stored=not one_matrix),
    ]
    return [
        b.linear("self_attn.qkv_proj", b.hidden, qkv, Shard.COLUMN, bias=bias, parts=parts),
        b.norm("self_attn.k_norm", size),
        Buffer("self_attn.v_norm", size),  # without a learned weight
        *out,
    ]


def _experts(b: LayerBuilder, text: Config, experts: int) -> list[Module]:
    """Router with scales of its input and of every expert, the experts, and their norms."""
    return [
        b.router(experts, "router.proj"),
        Tensor("router.scale", (b.hidden,)),
        Tensor("router.per_expert_scale", (experts,)),
        Buffer("router.root_size", 1),
        Buffer("router.norm", b.hidden),  # without a learned weight
        b.experts(
            experts, text.integer("top_k_experts"), _expert_width(text), "experts", trtllm=False
        ),
        b.norm("post_feedforward_layernorm_1"),
        b.norm("post_feedforward_layernorm_2"),
        b.norm("pre_feedforward_layernorm_2"),
    ]


def _beside(text: Config, scheme: QuantScheme, per_layer: int) -> tuple[Module, ...]:
    """What the model object holds beside its layers: scalars and the per-layer embeddings."""
    if not per_layer:
        return (Buffer("scalars", _SCALARS),)
    width = per_layer * text.num_layers
    rows = text.integer("vocab_size_per_layer_input", text.integer("vocab_size"))
    b = LayerBuilder(text, scheme, "model.language_model")
    return (
        Buffer("scalars", _SCALARS + _PER_LAYER_SCALARS),
        Embedding("embed_tokens_per_layer", rows, width),
        b.column("per_layer_model_projection", b.hidden, width),
        b.norm("per_layer_projection_norm", per_layer),
    )


def _rotary(text: Config, full: Config) -> tuple[RotaryCache, ...]:
    """One table for each kind of layer; the full layers' spans the whole head whatever share of
    it rotates."""
    positions = text.integer("max_position_embeddings")
    return (
        RotaryCache(positions, text.head_size),
        rotary_cache(full, rope=Config({}, f"{text.where}: full attention"), rows=positions),
    )
