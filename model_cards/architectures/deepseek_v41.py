"""DeepSeek V4.1: V4 with few sources of compressed vectors, tables of n-grams, and a vision tower.

Only some layers compress, and the others attend over what the last of them keeps; some index, and
the others take the picks of the last of them. Compressed keys of the indexer come from the
compressed vectors. At some layers a lookup of the latest n-grams joins the residual streams
(Engram), from tables that vLLM keeps in host memory. Drafts are DSpark's.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.architectures.decoder import Body, LayerBuilder, assemble, vocabulary
from model_cards.architectures.deepseek_dspark import dspark, has_dspark
from model_cards.architectures.deepseek_v4 import (
    attention,
    compressed_cache,
    index_cache,
    indexer,
    moe,
    rotary,
    window_cache,
)
from model_cards.architectures.hyper_connections import stream_mixes
from model_cards.architectures.towers.deepseek_vit import vision_tower
from model_cards.caches import DEEPSEEK_V41, AttentionKind, Cache
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Buffer, HostTable, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_NO_CANDIDATES: Final = -1
_FP32_BYTES: Final = 4
_MOST_COMPRESSED: Final = 2  # tokens in one vector


class _Place(Struct, frozen=True):
    """What a layer does for itself and for those behind it."""

    ratio: int  # tokens of a compressed vector, 0 where only the window is read
    compresses: bool
    indexes: bool
    proposes: bool  # blocks of tokens, among which the indexers behind it pick
    engram: int | None  # which of the tables it reads


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text, vision = config.text, config.section("vision_config")
    seeing = vision is not None and "num_hidden_layers" in vision
    places = [_place(text, index) for index in range(text.num_layers)]
    embedding, lm_head = vocabulary(text, scheme, tied=False)
    hidden, active = text.integer("hidden_size"), text.integer("num_experts_per_tok")

    def kind(index: int) -> Hashable:
        return places[index]

    return Body(
        embedding,
        assemble(
            text,
            scheme,
            lambda b, index: _layer(b, places[index], seeing=seeing),
            kind=kind,
            root="layers",
        ),
        (Tensor("norm", (hidden,)),),
        lm_head,
        (),
        max_intermediate_size=active * text.integer("moe_intermediate_size"),
        experts_per_token=active,
        beside=_beside(text, seeing=seeing),
        residual_streams=text.integer("hc_mult"),
        passed_bytes=_FP32_BYTES * text.integer("hc_mult"),  # how the next layer reads the streams
        towers=(vision_tower(vision, hidden),) if vision is not None and seeing else (),
        embedding_for_drafts=False,
        notes=_notes(text),
        drafts=_drafts(text, scheme, seeing=seeing),
        stage_starts=_stage_starts(text, places),
    )


def _beside(text: Config, *, seeing: bool) -> tuple[Module, ...]:
    """Vectors for the start, the end and the line breaks of an image; offsets of all n-grams."""
    modules: list[Module] = []
    if seeing:
        modules.append(Tensor("image_vectors", (3, text.integer("hidden_size")), "float32"))
    if tables := len(text.integers("engram_layer_ids")):
        modules.append(Buffer("engram.offsets", tables * _lookups(text), "int64"))
    return tuple(modules)


def _notes(text: Config) -> tuple[str, ...]:
    rows = sum(text.integers("engram_num_embeddings"))
    size = HostTable("", rows, text.integer("engram_head_dim", 0), 0).bytes / 2**30
    return (f"{size:.1f} GiB of n-gram tables stay in host memory",) if size else ()


def _place(text: Config, index: int) -> _Place:
    ratios = text.integers("compress_ratios")
    if len(ratios) < text.num_layers:
        raise text.fail("compress_ratios", f"one entry for each of {text.num_layers} layers")
    if ratios[index] > _MOST_COMPRESSED:
        raise text.fail("compress_ratios", f"at most {_MOST_COMPRESSED} each")
    for key in ("kv_source_layer_ids", "index_source_layer_ids"):
        if not ratios[index] and index in text.integers(key):
            raise text.fail(key, "layers that compress (compress_ratios above zero)")
    tables = text.integers("engram_layer_ids")
    return _Place(
        ratios[index],
        index in text.integers("kv_source_layer_ids"),
        index in text.integers("index_source_layer_ids"),
        index == text.integer("candidate_source_layer_id", _NO_CANDIDATES, minimum=-1),
        tables.index(index) if index in tables else None,
    )


def _stage_starts(text: Config, places: list[_Place]) -> frozenset[int]:
    """Layers that a pipeline stage may begin with: none behind reads compressed vectors before.

    vLLM does not pass those on to the next stage.
    """
    starts: set[int] = set()
    free = True
    for index in range(text.num_layers - 1, -1, -1):
        place = places[index]
        if place.ratio:
            free = place.compresses
        if free:
            starts.add(index)
    return frozenset(starts)


def _layer(b: LayerBuilder, place: _Place, *, seeing: bool) -> Layer:
    config = b.config
    experts, active = config.integer("n_routed_experts"), config.integer("num_experts_per_tok")
    modules = (
        *attention(b),
        *(_compressor(b, place.ratio) if place.compresses else ()),
        *(_indexer(b, keys=place.compresses) if place.indexes else ()),
        *_moe(b, experts, active, seeing=seeing),
        b.norm("attn_norm"),
        b.norm("ffn_norm"),
        *stream_mixes(b.config),
        *(_engram(b, place.engram) if place.engram is not None else ()),
    )
    return Layer(modules, _caches(config, place), (rotary(config, compressed=place.ratio > 0),))


def _compressor(b: LayerBuilder, ratio: int) -> list[Module]:
    """One vector for every token, and where several become one, their gates."""
    size = b.config.head_size
    outputs = [Output("wkv", size), Output("wgate", size)][: 2 if ratio > 1 else 1]
    name = "attn.compressor"
    fused = b.linear(
        f"{name}.fused_wkv_wgate", b.hidden, outputs, Shard.REPLICATED, quantized=False
    )
    return [fused, b.norm(f"{name}.norm", size)]


def _indexer(b: LayerBuilder, *, keys: bool) -> list[Module]:
    modules = indexer(b)
    if keys:
        size = b.config.integer("index_head_dim")
        modules += [
            b.replicated("attn.indexer.wk", b.config.head_size, size, quantized=False),
            b.norm("attn.indexer.k_norm", size),
        ]
    return modules


def _caches(config: Config, place: _Place) -> tuple[Cache, ...]:
    """In the order in which vLLM registers them."""
    window = window_cache(config, DEEPSEEK_V41)
    if not place.compresses:
        return (window,)
    compressed = compressed_cache(window, place.ratio)
    index = index_cache(config, compressed)
    if place.proposes:
        index = replace(index, index_topk=config.optional_integer("candidate_topk_blocks"))
    picking = replace(compressed, index_topk=config.integer("index_topk"))
    caches: list[Cache] = [picking, index, window] if place.indexes else [picking, window]
    if place.ratio > 1:
        states = 2 * config.head_size  # vector and gate
        caches.append(
            replace(window, head_size=states, kind=AttentionKind.TAIL, window=place.ratio)
        )
    return tuple(caches)


def _moe(b: LayerBuilder, experts: int, active: int, *, seeing: bool) -> list[Module]:
    """Tokens of an image are routed with a bias of their own."""
    bias = [Tensor("ffn.gate.bias_vl", (experts,), "float32")] if seeing else []
    return [*moe(b, experts, active), *bias]


def _engram(b: LayerBuilder, index: int) -> list[Module]:
    """Rows for the n-grams that end at a token, as keys for all streams and one value.

    vLLM hashes the tokens with tables of its own, which are on the device.
    """
    config = b.config
    rows, width = config.integers("engram_num_embeddings"), config.integer("engram_head_dim")
    streams, lookups = config.integer("hc_mult"), _lookups(config)
    if index >= len(rows):
        raise config.fail("engram_num_embeddings", "one entry for each of engram_layer_ids")
    modules: list[Module] = [
        HostTable("engram.embed", rows[index], width, lookups),
        b.column("engram.wkv", lookups * width, (streams + 1) * b.hidden),
        Tensor("engram.q_weight", (streams, b.hidden)),
        Tensor("engram.k_weight", (streams, b.hidden)),
    ]
    if index == 0:
        tables, longest = len(rows), config.integer("engram_max_ngram_size")
        modules += [
            Buffer("engram.token_map", config.integer("vocab_size"), "int32"),
            Buffer("engram.primes", tables * lookups, "int64"),
            Buffer("engram.multipliers", tables * longest, "int64"),
        ]
    return modules


def _lookups(config: Config) -> int:
    """n-grams of a token, each hashed by several heads."""
    return (config.integer("engram_max_ngram_size") - 1) * config.integer("engram_n_heads")


def _drafts(text: Config, scheme: QuantScheme, *, seeing: bool) -> tuple[Draft, ...]:
    """DSpark's stages, with fewer experts than the model's layers."""
    if not has_dspark(text):
        return ()
    experts = text.integer("dspark_n_routed_experts", text.integer("n_routed_experts"))
    active = text.integer("dspark_num_experts_per_tok", text.integer("num_experts_per_tok"))

    def layer(b: LayerBuilder) -> Layer:
        modules = (
            *attention(b),
            *_moe(b, experts, active, seeing=seeing),
            b.norm("attn_norm"),
            b.norm("ffn_norm"),
            *stream_mixes(b.config),
        )
        window = window_cache(text, DEEPSEEK_V41)
        return Layer(modules, (window,), (rotary(text, compressed=False),))

    return (dspark(text, scheme, layer),)
