"""A network that is not modelled: its size from totals, its cache from the usual config keys.

Nothing here is exact. It serves architectures and quantizations without a module of their own;
the card says so, and planning gives every number from it a wide band.
"""

from __future__ import annotations

from model_cards.architectures.decoder import Body, tied_embeddings, vocabulary
from model_cards.caches import Attention, AttentionKind
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.errors import UnsupportedModel
from model_cards.modules import Bulk, Tensor
from model_cards.pooling import without_head
from model_cards.quantization.scheme import NO_QUANTIZATION

_ACTIVE_KEYS = ("num_experts_per_tok", "moe_topk", "top_k_experts", "moe_k")
_EXPERT_KEYS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_LINEAR_LAYERS = frozenset({"linear_attention", "mamba", "conv", "recurrent"})


def estimate_body(config: Config, parameters: int, weight_bytes: int, kind: str) -> Body:
    """A stand-in network of so many parameters, stored in so many bytes as `kind`.

    Vocabulary matrices are taken out of the total; the rest is spread evenly over the layers.
    Raises `UnsupportedModel` where not even the cache's shape can be read.
    """
    text = config.text
    caches = estimated_caches(config)
    headless = any(map(without_head, config.architectures))  # counted as if it were tied
    embedding, head = vocabulary(text, NO_QUANTIZATION, tied=headless or says_tied(config))
    outside = embedding.elements + (head.elements if head is not None else 0)
    inside, inside_bytes = parameters - outside, weight_bytes - 2 * outside
    if inside <= 0 or inside_bytes <= 0:
        raise UnsupportedModel(
            f"{config.where}: {parameters} parameters are fewer than its vocabulary alone needs"
        )
    count = text.num_layers
    active = _active_parameters(text, inside)
    body = Bulk("layer", inside // count, inside_bytes // count, active // count, kind)
    layers = tuple(Layer((body,), (cache,) if cache else ()) for cache in caches)
    return Body(
        embedding,
        layers,
        (Tensor("norm", (text.integer("hidden_size"),)),),
        head,
        (),
        max_intermediate_size=mlp_width(text),
        experts_per_token=experts_per_token(text),
    )


def mlp_width(text: Config) -> int:
    """The usual ratio where it is not one number: some configs list one a layer."""
    return _first(text, "intermediate_size") or 4 * text.integer("hidden_size")


def experts_per_token(text: Config) -> int:
    """Routed experts that a token visits, 0 if there are none."""
    return _first(text, *_ACTIVE_KEYS) or 0


def num_experts(text: Config) -> int:
    """Routed experts of an MoE layer, 0 if there are none."""
    return _first(text, *_EXPERT_KEYS) or 0


def says_tied(config: Config) -> bool:
    """Whether the output head is the embedding, as far as a config tells."""
    default = config.text.boolean("tie_word_embeddings", config.model_type.startswith("gemma"))
    return tied_embeddings(config, default)


def _first(config: Config, *keys: str) -> int | None:
    for key in keys:
        if isinstance(config.raw(key), int):
            return config.integer(key, minimum=0)
    return None


def _active_parameters(text: Config, inside: int) -> int:
    """Parameters inside the layers that one token meets: all, or those of its experts."""
    experts = _first(text, *_EXPERT_KEYS)
    active = _first(text, *_ACTIVE_KEYS)
    size = _first(text, "moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    if not experts or not active or not size:
        return inside
    dense_layers = _first(text, "first_k_dense_replace") or 0
    sparse_layers = max(0, text.num_layers - dense_layers)
    routed = sparse_layers * experts * 3 * text.integer("hidden_size") * size
    if routed >= inside:
        return inside * min(active, experts) // experts
    return inside - routed + routed * min(active, experts) // experts


def estimated_caches(config: Config) -> list[Attention | None]:
    """The cache of every layer from the keys that most configs share.

    Raises `UnsupportedModel` where they are not all there.
    """
    text = config.text
    if "num_hidden_layers" not in text or "hidden_size" not in text or "vocab_size" not in text:
        raise UnsupportedModel(
            f"{config.where}: no layer count, hidden size or vocabulary to estimate from"
        )
    count = text.num_layers
    types = text.strings("layer_types")
    if len(types) != count:
        types = ("full_attention",) * count
    if "kv_lora_rank" in text:
        latent = text.integer("kv_lora_rank") + text.integer("qk_rope_head_dim", 64, minimum=0)
        cache = Attention(
            text.integer("num_attention_heads"), 1, latent, 0, AttentionKind.MLA, None
        )
        return [None if kind in _LINEAR_LAYERS else cache for kind in types]
    if "num_attention_heads" not in text:
        raise UnsupportedModel(f"{text.where}: no attention heads to estimate a KV cache from")
    heads, size = text.integer("num_attention_heads"), text.head_size
    window = text.optional_integer("sliding_window", minimum=0) or None
    caches: list[Attention | None] = []
    for kind in types:
        slides = kind == "sliding_attention" and window is not None
        caches.append(
            None
            if kind in _LINEAR_LAYERS
            else Attention(
                heads,
                text.num_kv_heads,
                size,
                size,
                AttentionKind.SLIDING if slides else AttentionKind.FULL,
                window if slides else None,
            )
        )
    return caches
