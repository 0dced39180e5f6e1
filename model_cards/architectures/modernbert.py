"""ModernBERT: a gated encoder without biases whose layers see all of a prompt or a window of it."""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder, assemble
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import NO_HEAD, Embedding, Module, Output, RotaryCache, Shard, Tensor
from model_cards.pooling import PoolingClass, fp32_linear, read_pooling
from model_cards.quantization.scheme import QuantScheme

_FULL, _SLIDING = "full_attention", "sliding_attention"


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, intermediate = config.integer("hidden_size"), config.integer("intermediate_size")
    attention_bias = config.boolean("attention_bias", False)
    mlp_bias = config.boolean("mlp_bias", False)

    def norm(name: str, dtype: str | None = None) -> Tensor:
        return Tensor(name, (2 if config.boolean("norm_bias", False) else 1, hidden), dtype)

    def layer(b: LayerBuilder, index: int) -> Layer:
        modules = [
            *b.attention(
                "attn",
                qkv="Wqkv",
                out="Wo",
                qkv_bias=attention_bias,
                o_bias=attention_bias,
                parts=("Wqkv",),
            ),
            b.linear(
                "mlp.Wi",
                hidden,
                (Output("input", intermediate), Output("gate", intermediate)),
                Shard.COLUMN,
                bias=mlp_bias,
                parts=("Wi",),
            ),
            b.row("mlp.Wo", intermediate, hidden, bias=mlp_bias),
            norm("mlp_norm"),
        ]
        if index > 0:  # the embedding's norm stands before the first layer
            modules.append(norm("attn_norm"))
        return Layer(tuple(modules), (b.encoder_attention(),))

    pooling = PoolingClass(_has_head(config), "CLS")
    head: list[Module] = []
    if _has_head(config):
        labels = read_pooling(config, pooling, None).labels
        bias = config.boolean("classifier_bias", False)
        head.append(fp32_linear("head.dense", hidden, hidden, bias=bias))
        head.append(norm("head.norm", "float32"))
        head.append(fp32_linear("classifier", hidden, labels))
    return Body(
        Embedding("embeddings.tok_embeddings", config.integer("vocab_size"), hidden),
        assemble(config, scheme, layer, kind=lambda index: index == 0, root="layers"),
        (norm("final_norm"),),
        NO_HEAD,
        _rotary(config),
        max_intermediate_size=intermediate,
        beside=(norm("embeddings.norm"), *head),
        pooling=pooling,
    )


def _has_head(config: Config) -> bool:
    return config.architectures[0] == "ModernBertForSequenceClassification"


def _rotary(config: Config) -> tuple[RotaryCache, ...]:
    """One table for each base: that of windows and that of layers that see everything."""
    rows, width = config.integer("max_position_embeddings"), config.head_size
    bases = {_base(config, kind) for kind in _kinds(config)}
    return (RotaryCache(rows, width),) * len(bases)


def _kinds(config: Config) -> set[str]:
    types = config.strings("layer_types")
    if types:
        return set(types)
    every = config.integer("global_attn_every_n_layers", 3)
    return {_SLIDING if index % every else _FULL for index in range(config.num_layers)}


def _base(config: Config, kind: str) -> float:
    """Of the angles, as transformers 5 writes it for each kind of layer, or as it used to be."""
    part = config.rope_parameters.section(kind)
    if part is not None:
        return part.number("rope_theta")
    key, default = (
        ("local_rope_theta", 10000.0) if kind == _SLIDING else ("global_rope_theta", 160000.0)
    )
    return config.number(key, default)
