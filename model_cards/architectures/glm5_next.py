"""GLM-5.3-Flash: KDA layers with sparse latent attention in between, hyper-connections, a tower.

The indexer of a sparse layer (DSA) keeps one key for every group of `index_kpool` tokens; of the
group that is not yet full it keeps the tokens' own keys and gates. Latent vectors have no rotary
part. No checkpoint quantizes attention.
"""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    sequence_parallel,
    tied_embeddings,
    vocabulary,
)
from model_cards.architectures.deepseek import index_cache, indexer, latent_attention, latent_cache
from model_cards.architectures.hyper_connections import stream_mixes
from model_cards.architectures.kda import delta_attention
from model_cards.architectures.towers.glm5_next import vision_tower
from model_cards.caches import Attention, AttentionKind, Cache
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme

_PICK_ALIGNMENT = 128  # of the row of tokens that a layer picks
# Of transformers' Glm5NextTextConfig:
_SPARSE_PERIOD = 4
_DENSE_LAYERS = 3


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text, vision = config.text, config.section("vision_config")
    root = "language_model." if vision is not None else ""
    delta, moe = _delta_layers(text), _moe_layers(text)
    embedding, head = vocabulary(
        text, scheme, tied=tied_embeddings(text, False), head=f"{root}lm_head"
    )
    active = text.integer("num_experts_per_tok")
    return Body(
        embedding,
        assemble(
            text,
            scheme,
            lambda b, index: _layer(b, delta=delta[index], moe=moe[index]),
            kind=lambda index: (delta[index], moe[index]),
            root=f"{root}model.layers",
        ),
        (Tensor("model.norm", (text.integer("hidden_size"),)),),
        head,
        (),
        max_intermediate_size=max(
            text.integer("intermediate_size"), active * text.integer("moe_intermediate_size")
        ),
        experts_per_token=active,
        towers=(vision_tower(config, vision),) if vision is not None else (),
        drafts=_drafts(text, scheme, moe=moe[-1]),
    )


def _delta_layers(text: Config) -> tuple[bool, ...]:
    usual = tuple((index + 1) % _SPARSE_PERIOD != 0 for index in range(text.num_layers))
    return _kinds(text, "layer_types", "linear_attention", usual)


def _moe_layers(text: Config) -> tuple[bool, ...]:
    usual = tuple(index >= _DENSE_LAYERS for index in range(text.num_layers))
    return _kinds(text, "mlp_layer_types", "sparse", usual)


def _kinds(text: Config, key: str, kind: str, usual: tuple[bool, ...]) -> tuple[bool, ...]:
    """For every layer, whether a list calls it so; `usual` without a list."""
    if key not in text:
        return usual
    kinds = text.strings(key)
    if len(kinds) != text.num_layers:
        raise text.fail(key, f"one entry for each of {text.num_layers} layers")
    return tuple(each == kind for each in kinds)


def _layer(b: LayerBuilder, *, delta: bool, moe: bool, drafts: bool = False) -> Layer:
    """A decoder layer; those that draft have no hyper-connections."""
    ffn = _moe(b) if moe else sequence_parallel(b.gated_mlp(b.config.integer("intermediate_size")))
    plain = LayerBuilder(b.config, NO_QUANTIZATION, b.path)
    modules = [
        *(_delta_attention(plain) if delta else _sparse_attention(plain)),
        *ffn,
        b.norm("input_layernorm"),
        b.norm("post_attention_layernorm"),
    ]
    if b.config.boolean("mhc", False) and not drafts:
        modules += stream_mixes(b.config)
    return Layer(tuple(modules), _delta_caches(b.config) if delta else _sparse_caches(b.config))


def _delta_attention(b: LayerBuilder) -> list[Module]:
    """vLLM's `Glm5NextLinearAttention`: low ranks of decay and gate whole on every rank."""
    delta = delta_attention(b.config)
    heads, size = delta.heads, delta.head_size
    outputs = [Output(name, heads, size) for name in ("q", "k", "v")]
    outputs.append(Output("b", heads))
    outputs += [Output(name, 1, size, replicable=True) for name in ("f_a", "g_a")]
    return [
        b.linear("self_attn.in_proj_qkvbfg_a", b.hidden, outputs, Shard.COLUMN),
        b.column("self_attn.f_b_proj", size, delta.features),
        b.column("self_attn.g_b_proj", size, delta.features),
        *delta.recurrence(b),
        b.row("self_attn.o_proj", delta.features, b.hidden),
    ]


def _delta_caches(config: Config) -> tuple[Cache, ...]:
    """Gates are bounded (`linear_lower_bound`), so FlashKDA runs them."""
    return (delta_attention(config).state(exports_states=True),)


def _sparse_attention(b: LayerBuilder) -> list[Module]:
    """Latent attention, and an indexer that pools keys by their gates."""
    size = b.config.integer("index_head_dim")
    return [
        *latent_attention(b),
        *indexer(b),
        Tensor("self_attn.indexer.compress_ape", (_pool(b.config), size), "float32"),
        Tensor("self_attn.indexer.compress_gate", (size, b.hidden)),
    ]


def _sparse_caches(config: Config) -> tuple[Cache, ...]:
    """In the order in which vLLM registers them."""
    pool, heads = _pool(config), config.integer("num_attention_heads")
    picked = config.integer("index_topk") + pool - 1  # the last group, as far as it is full
    picked = -(-picked // _PICK_ALIGNMENT) * _PICK_ALIGNMENT
    key_and_gate = 2 * config.integer("index_head_dim")
    return (
        replace(index_cache(config), compression=pool),
        Attention(heads, 1, key_and_gate, 0, AttentionKind.TAIL, window=pool),
        replace(latent_cache(config), index_topk=picked, own_picks=True),
    )


def _pool(config: Config) -> int:
    return config.integer("index_kpool")


def _moe(b: LayerBuilder) -> list[Module]:
    """Sigmoid routing with a bias for each expert, shared experts as one MLP."""
    config = b.config
    experts, size = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    modules: list[Module] = [b.router(experts)]
    if config.string("topk_method", "") == "noaux_tc":
        modules.append(Tensor("mlp.gate.e_score_correction_bias", (experts,), "float32"))
    shared = config.integer("n_shared_experts", 0, minimum=0)
    if shared:
        modules += sequence_parallel(b.gated_mlp(shared * size, "mlp.shared_experts"))
    routed = b.experts(experts, config.integer("num_experts_per_tok"), size)
    limits = int("swiglu_limit" in config)
    modules.append(replace(routed, activation_parameters=limits, scaled_parameters=limits))
    return modules


def _drafts(text: Config, scheme: QuantScheme, *, moe: bool) -> tuple[Draft, ...]:
    """MTP layers: sparse ones behind a projection, with the model's embedding and head."""
    layers: list[Layer] = []
    around: list[Module] = []
    for index in range(text.integer("num_nextn_predict_layers", 0, minimum=0)):
        b = LayerBuilder(text, scheme, f"model.layers.{text.num_layers + index}")
        layers.append(_layer(b, delta=False, moe=moe, drafts=True))
        around += [
            b.norm("enorm"),
            b.norm("hnorm"),
            b.replicated("eh_proj", 2 * b.hidden, b.hidden, quantized=False),
            b.norm("shared_head.norm"),
        ]
    return (Draft("mtp", tuple(layers), tuple(around)),) if layers else ()
