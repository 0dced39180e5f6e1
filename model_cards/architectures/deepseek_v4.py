"""DeepSeek V4: windows of latent vectors beside compressed ones, hyper-connections, 4-bit experts.

Every layer attends over a sliding window. Most attend over compressed vectors too: one for every 4
tokens, of which an indexer picks some (CSA), or one for every 128 (HCA). Keys and values are the
same vector, with the rotary part inside it. Layers pass several residual streams on (mHC), and the
first ones route by a table from tokens to experts. V4.1 (`deepseek_v41`) is made of the same parts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    sequence_parallel,
    vocabulary,
)
from model_cards.architectures.deepseek_dspark import dspark, has_dspark
from model_cards.architectures.hyper_connections import stream_mixes
from model_cards.caches import DEEPSEEK_V4, Attention, AttentionKind, Cache
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Linear, Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.fp8 import Fp8
from model_cards.quantization.mxfp8 import GROUP as MXFP8_GROUP
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.scheme import QuantScheme

_SPARSE_RATIO: Final = 4  # of CSA, whose compressor has overlapping windows
_COMPRESS_RATES: Final = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
_RATIOS: Final = (0, 1, 4, 128)  # 0 and 1: nothing is compressed
_HASH_LAYERS: Final = 3
_ROTARY_PART: Final = 1 / 8
_SCALE_GROUP: Final = 128  # an fp32 scale for every so many fp8 values of the indexer's cache


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    ratios, hashed = _ratios(config), _hash_layers(config)
    embedding, lm_head = vocabulary(config, scheme, tied=False)
    active = config.integer("num_experts_per_tok")

    def kind(index: int) -> Hashable:
        return ratios[index], index < hashed

    return Body(
        embedding,
        assemble(
            config,
            scheme,
            lambda b, index: _layer(b, ratios[index], hashed=index < hashed),
            kind=kind,
            root="layers",
        ),
        (Tensor("norm", (config.integer("hidden_size"),)),),
        lm_head,
        (),
        max_intermediate_size=active * config.integer("moe_intermediate_size"),
        experts_per_token=active,
        beside=_stream_head(config),
        residual_streams=config.integer("hc_mult"),
        drafts=_drafts(config, scheme),
        unreadable=_unreadable(config),
    )


def _unreadable(config: Config) -> str | None:
    if config.model_type == DEEPSEEK_V4:
        return None
    return f"transformers has no model_type {config.model_type!r}"


def _ratios(config: Config) -> tuple[int, ...]:
    """Tokens of one compressed vector in every layer, 0 where only the window is kept."""
    count, ratios = config.num_layers, config.integers("compress_ratios")
    if not ratios:  # as transformers writes them
        rates = config.section("compress_rates")
        own = {kind: rates.integer(kind, minimum=0) for kind in rates} if rates else {}
        kinds = config.strings("layer_types")
        ratios = tuple({**_COMPRESS_RATES, **own}.get(kind, 0) for kind in kinds)
    if len(ratios) < count:
        raise config.fail("compress_ratios", f"one entry for each of {count} layers")
    if not all(ratio in _RATIOS for ratio in ratios[:count]):
        raise config.fail("compress_ratios", f"each one of {', '.join(map(str, _RATIOS))}")
    return tuple(0 if ratio == 1 else ratio for ratio in ratios[:count])


def _hash_layers(config: Config) -> int:
    """Layers that route by token: the first ones."""
    kinds = config.strings("mlp_layer_types")
    if kinds:
        return kinds.count("hash_moe")
    return config.integer("num_hash_layers", _HASH_LAYERS, minimum=0)


def _layer(b: LayerBuilder, ratio: int, *, hashed: bool) -> Layer:
    config = b.config
    experts, active = config.integer("n_routed_experts"), config.integer("num_experts_per_tok")
    modules = (
        *attention(b),
        *(_compression(b, ratio) if ratio else ()),
        *moe(b, experts, active, hashed=hashed),
        b.norm("attn_norm"),
        b.norm("ffn_norm"),
        *stream_mixes(config),
    )
    return Layer(modules, _caches(config, ratio), (rotary(config, compressed=ratio > 0),))


def attention(b: LayerBuilder) -> list[Module]:
    """Low-rank queries, one vector as key and value, output projected in groups of heads."""
    config = b.config
    heads, size = config.integer("num_attention_heads"), config.head_size
    rank, group_rank = config.integer("q_lora_rank"), config.integer("o_lora_rank")
    groups = config.integer("o_groups")
    if heads % groups:
        raise config.fail("o_groups", f"a divisor of {heads}, the heads")
    down = (Output("wq_a", rank), Output("wkv", size))
    to_groups = [Output("wo_a", groups, group_rank)]
    wo_a = b.linear("attn.wo_a", heads * size // groups, to_groups, Shard.COLUMN)
    return [
        b.linear("attn.fused_wqa_wkv", b.hidden, down, Shard.REPLICATED, parts=("wq_a", "wkv")),
        b.norm("attn.q_norm", rank),
        b.norm("attn.kv_norm", size),
        b.linear("attn.wq_b", rank, [Output("wq_b", heads, size)], Shard.COLUMN),
        replace(wo_a, batched=True),
        b.row("attn.wo_b", groups * group_rank, b.hidden),
        Tensor("attn.attn_sink", (heads,), "float32", sharded=True, padded=True),
    ]


def _compression(b: LayerBuilder, ratio: int) -> list[Module]:
    """The compressor, and CSA's indexer with one of its own."""
    modules = _compressor(b, "attn.compressor", b.config.head_size, ratio)
    if ratio == _SPARSE_RATIO:
        size = b.config.integer("index_head_dim")
        modules += [*indexer(b), *_compressor(b, "attn.indexer.compressor", size, ratio)]
    return modules


def indexer(b: LayerBuilder) -> list[Module]:
    """Queries and weights of the indexer's heads, whole on every rank."""
    config = b.config
    heads, size = config.integer("index_n_heads"), config.integer("index_head_dim")
    return [
        b.replicated("attn.indexer.wq_b", config.integer("q_lora_rank"), heads * size),
        b.replicated("attn.indexer.weights_proj", b.hidden, heads, quantized=False),
    ]


def _compressor(b: LayerBuilder, name: str, size: int, ratio: int) -> list[Module]:
    """Vectors and gates of all tokens, and what a token's place in its window adds to the gate."""
    width = _spans(ratio) * size
    fused = b.linear(
        f"{name}.fused_wkv_wgate",
        b.hidden,
        (Output("wkv", width), Output("wgate", width)),
        Shard.REPLICATED,
        quantized=False,
    )
    return [fused, b.norm(f"{name}.norm", size), Tensor(f"{name}.ape", (ratio, width), "float32")]


def _spans(ratio: int) -> int:
    """Windows of a compressor that a token is in."""
    return 2 if ratio == _SPARSE_RATIO else 1


def _caches(config: Config, ratio: int) -> tuple[Cache, ...]:
    """In the order in which vLLM registers them."""
    window = window_cache(config, DEEPSEEK_V4)
    if not ratio:
        return (window,)

    def states(size: int) -> Attention:
        spans = _spans(ratio)
        width = 2 * spans * size  # vector and gate
        return replace(window, head_size=width, kind=AttentionKind.COMPRESSOR, window=spans * ratio)

    compressed = compressed_cache(window, ratio)
    if ratio != _SPARSE_RATIO:
        return (window, compressed, states(config.head_size))
    picking = replace(compressed, index_topk=config.integer("index_topk"))
    index_states = states(config.integer("index_head_dim"))
    index = index_cache(config, compressed)
    return (index, index_states, window, picking, states(config.head_size))


def window_cache(config: Config, model_version: str) -> Attention:
    """The latest vectors, which every layer keeps."""
    return Attention(
        config.integer("num_attention_heads"),
        1,
        config.head_size,
        0,
        AttentionKind.SLIDING_MLA,
        config.integer("sliding_window"),
        model_version=model_version,
    )


def compressed_cache(window: Attention, ratio: int) -> Attention:
    """Vectors like those of the window, one for `ratio` tokens, from the first token on."""
    return replace(window, kind=AttentionKind.MLA, window=None, compression=ratio)


def index_cache(config: Config, compressed: Attention) -> Attention:
    """The indexer's key for each compressed vector: fp8 values with their fp32 scales."""
    size = config.integer("index_head_dim")
    return replace(
        compressed,
        num_heads=config.integer("index_n_heads"),
        head_size=size + size // _SCALE_GROUP * 4,
        kind=AttentionKind.INDEXER,
    )


def moe(b: LayerBuilder, experts: int, active: int, *, hashed: bool = False) -> list[Module]:
    """Router, routed experts, and shared ones as one MLP.

    Where it is `hashed`, a table gives the experts of every token of the vocabulary, and the
    router only weighs them.
    """
    config = b.config
    size = config.integer("moe_intermediate_size")
    modules: list[Module] = [b.router(experts, "ffn.gate")]
    if hashed:
        table = (config.integer("vocab_size"), active)
        modules.append(Tensor("ffn.gate.tid2eid", table, "int32"))
    elif config.string("topk_method", "") == "noaux_tc":
        modules.append(Tensor("ffn.gate.e_score_correction_bias", (experts,), "float32"))
    shared = config.integer("n_shared_experts", 0, minimum=0) * size
    if shared:
        mlp = b.gated_mlp(shared, "ffn.shared_experts", parts=("w1", "w3"), down="w2")
        modules += sequence_parallel([_in_blocks(linear) for linear in mlp])
    routed = b.experts(experts, active, size, "ffn.experts")
    limits = int("swiglu_limit" in config)
    modules.append(replace(routed, activation_parameters=limits, scaled_parameters=limits))
    return modules


def _in_blocks(module: Module) -> Module:
    """Shared experts are split in whole blocks of their scales."""
    assert isinstance(module, Linear)
    match module.format:
        case Fp8(block=(block, _)) if block:
            return replace(module, block=block)
        case Mxfp8():
            return replace(module, block=MXFP8_GROUP)
    return module


def _stream_head(config: Config) -> tuple[Tensor, ...]:
    """What makes one hidden state of the streams, on every pipeline stage."""
    streams = config.integer("hc_mult")
    return (
        Tensor("hc_head_fn", (streams, streams * config.integer("hidden_size")), "float32"),
        Tensor("hc_head_base", (streams,), "float32"),
        Tensor("hc_head_scale", (1,), "float32"),
    )


def rotary(config: Config, *, compressed: bool) -> RotaryCache:
    """Compressed layers have YaRN and a base of their own, windows alone plain RoPE; in fp32."""
    width = config.integer("qk_rope_head_dim", int(config.head_size * _ROTARY_PART))
    rope, theta = Config({}, config.where), config.number("rope_theta", 10000.0)
    if compressed:
        rope = config.rope_parameters.section("compress") or config.rope_parameters
        theta = config.number("compress_rope_theta", 160000.0)
    rope = rope.merged({"rope_theta": theta, "partial_rotary_factor": 1.0})
    return replace(rotary_cache(config, rope=rope, size=width), dtype="float32")


def _drafts(config: Config, scheme: QuantScheme) -> tuple[Draft, ...]:
    """What drafts from the window alone: DSpark's stages or MTP layers."""

    def layer(b: LayerBuilder) -> Layer:
        return _layer(b, 0, hashed=False)

    if has_dspark(config):
        return (dspark(config, scheme, layer, head=_stream_head(config), fused_wkv=True),)
    count = config.integer("num_nextn_predict_layers", 0, minimum=0)
    if not count:
        return ()
    layers: list[Layer] = []
    around: list[Module] = []
    for index in range(count):
        b = LayerBuilder(config, scheme, f"mtp.{index}")
        layers.append(layer(b))
        around += [
            b.norm("enorm"),
            b.norm("hnorm"),
            b.replicated("e_proj", b.hidden, b.hidden),
            b.replicated("h_proj", b.hidden, b.hidden),
            b.norm("norm"),
            *_stream_head(config),
        ]
    hidden = config.integer("hc_mult") * config.integer("hidden_size")
    return (Draft("mtp", tuple(layers), tuple(around), hidden_size=hidden),)
