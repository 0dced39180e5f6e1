"""DeepSeek and what shares its shape: shared experts, from DeepSeek V2 on latent attention (MLA).

DeepSeek's first MoE and GLM 4.5 to 4.7 attend with plain heads, GLM 4.7 Flash with latent ones.

DeepSeek V3.2 and GLM-5 add sparse attention (DSA): an indexer with a cache of its own picks the
tokens that a layer attends to. Kimi K2 is a DeepSeek V3; K2.5 has a vision tower in front.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from model_cards.architectures.decoder import (
    ATTENTION_SCALES,
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    sequence_parallel,
    tied_embeddings,
    vocabulary,
)
from model_cards.caches import Attention, AttentionKind, Cache
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import (
    Buffer,
    Embedding,
    Linear,
    Module,
    Output,
    RotaryCache,
    Shard,
    Tensor,
)
from model_cards.quantization.formats import UNQUANTIZED
from model_cards.quantization.scheme import QuantScheme

_DEFAULT_Q_LORA_RANK = 1536  # of transformers' DeepseekV2Config and DeepseekV3Config
_GLM_ROTARY_PART = 0.5  # of a head, in vLLM's Glm4MoeAttention
_INDEXER_SCALE_GROUP = 128  # an fp32 scale for every so many fp8 values of the indexer's cache


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(text: Config, scheme: QuantScheme, *, root: str = "", head: str = "lm_head") -> Body:
    """The language model of a `text` config whose modules have paths below `root`."""
    layers = assemble(
        text,
        scheme,
        lambda b, index: _layer(b, is_moe_layer(text, index), has_indexer(text, index)),
        kind=lambda index: _kind(text, index),
        root=f"{root}model.layers",
    )
    tied = tied_embeddings(text, False)
    embedding, lm_head = vocabulary(text, scheme, tied=tied, head=head)
    active = text.integer("num_experts_per_tok") if _experts(text) else 0
    width = text.integer("intermediate_size")
    if active:
        width = max(width, active * text.integer("moe_intermediate_size"))
    return Body(
        embedding,
        layers,
        (Tensor("model.norm", (text.integer("hidden_size"),)),),
        lm_head,
        _rotary(text),
        max_intermediate_size=width,
        experts_per_token=active,
        drafts=_drafts(text, scheme, root),
    )


def _kind(text: Config, index: int) -> Hashable:
    return is_moe_layer(text, index), has_indexer(text, index)


def _experts(text: Config) -> int:
    return text.integer("n_routed_experts", 0, minimum=0)


def is_moe_layer(text: Config, index: int) -> bool:
    """Whether a layer has routed experts: not the first ones."""
    return (
        _experts(text) > 0
        and index >= text.integer("first_k_dense_replace", _dense_layers(text), minimum=0)
        and index % text.integer("moe_layer_freq", 1) == 0
    )


def _dense_layers(text: Config) -> int:
    """How many layers `mlp_layer_types` (transformers 5) calls dense: the first ones."""
    return text.strings("mlp_layer_types").count("dense")


def _is_latent(text: Config) -> bool:
    return text.integer("qk_rope_head_dim", 0, minimum=0) > 0


def _is_glm(text: Config) -> bool:
    return text.model_type.startswith("glm4_moe")


def has_indexer(text: Config, index: int) -> bool:
    """Whether a layer picks its tokens itself; others use those of the layer before them."""
    if "index_topk" not in text:
        return False
    if index >= text.num_layers:  # MTP
        return True
    pattern = text.raw("index_topk_pattern")
    if isinstance(pattern, (str, list)):
        return index >= len(pattern) or pattern[index] != "S"
    offset = text.integer("index_skip_topk_offset", 2, minimum=0)
    return max(index - offset + 1, 0) % text.integer("index_topk_freq", 1) == 0


def _layer(b: LayerBuilder, moe: bool, indexes: bool) -> Layer:
    ffn = shared_moe(b) if moe else b.gated_mlp(b.config.integer("intermediate_size"))
    if not moe and "index_topk" in b.config:  # this class splits tokens before dense layers too
        ffn = sequence_parallel(ffn)
    modules = [
        *(latent_attention(b) if _is_latent(b.config) else _plain_attention(b)),
        *(indexer(b) if indexes else ()),
        *ffn,
        b.norm("input_layernorm"),
        b.norm("post_attention_layernorm"),
    ]
    caches: list[Cache] = [index_cache(b.config)] if indexes else []
    caches.append(latent_cache(b.config) if _is_latent(b.config) else b.cache())
    return Layer(tuple(modules), tuple(caches))


def _plain_attention(b: LayerBuilder) -> list[Module]:
    glm = _is_glm(b.config)
    bias = glm and b.config.boolean("attention_bias", False)
    return b.attention(qkv_bias=bias, qk_norm=glm and b.config.boolean("use_qk_norm", False))


def latent_attention(
    b: LayerBuilder, name: str = "self_attn", *, output_gate: bool = False
) -> list[Module]:
    """MLA: down-projections whole on every rank, up-projections by heads.

    An `output_gate` for every feature of the output is fused with the down-projections, where
    both are. vLLM absorbs the up-projection of keys and values into the queries and the output.
    From a quantized `kv_b_proj` it makes those matrices in the model's dtype and keeps both.
    """
    config = b.config
    heads, rope = config.integer("num_attention_heads"), _rotary_width(config)
    nope, value = config.integer("qk_nope_head_dim"), config.integer("v_head_dim")
    latent, query = config.integer("kv_lora_rank"), _q_lora_rank(config)
    gate = Output("g_proj", heads, value)
    modules: list[Module]
    if query is not None:
        modules = [
            _fused_down(b, name, query, latent + rope, gate if output_gate else None),
            b.norm(f"{name}.q_a_layernorm", query),
            b.linear(f"{name}.q_b_proj", query, [Output("q", heads, nope + rope)], Shard.COLUMN),
        ]
    else:
        modules = [
            b.replicated(f"{name}.kv_a_proj_with_mqa", b.hidden, latent + rope),
            b.linear(f"{name}.q_proj", b.hidden, [Output("q", heads, nope + rope)], Shard.COLUMN),
        ]
        if output_gate:
            modules.append(b.linear(f"{name}.g_proj", b.hidden, [gate], Shard.COLUMN))
    up = [Output("kv", heads, nope + value)]
    kv_b = b.linear(f"{name}.kv_b_proj", latent, up, Shard.COLUMN)
    modules += [
        b.norm(f"{name}.kv_a_layernorm", latent),
        kv_b,
        b.row(f"{name}.o_proj", heads * value, b.hidden),
        ATTENTION_SCALES,
    ]
    if kv_b.format is not UNQUANTIZED:
        absorbed = heads * latent * (nope + value)
        modules.append(Buffer(f"{name}.absorbed_kv_b", absorbed, None, sharded=True))
    return modules


def _rotary_width(config: Config) -> int:
    """Rotary features of a head; GLM-5.3-Flash has none."""
    return config.integer("qk_rope_head_dim", minimum=0)


def _fused_down(b: LayerBuilder, name: str, query: int, latent: int, gate: Output | None) -> Linear:
    """The down-projections, whole on every rank, and the output gate, which ranks share."""
    parts: tuple[str, ...] = ("q_a_proj", "kv_a_proj_with_mqa")
    if gate is None:
        down = [Output("q_a_proj", query), Output("kv_a_proj_with_mqa", latent)]
        return b.linear(f"{name}.fused_qkv_a_proj", b.hidden, down, Shard.REPLICATED, parts=parts)
    outputs = [
        Output("q_a_proj", 1, query, replicable=True),
        Output("kv_a_proj_with_mqa", 1, latent, replicable=True),
        gate,
    ]
    parts = (*parts, "g_proj")
    return b.linear(f"{name}.fused_qkv_a_g_proj", b.hidden, outputs, Shard.COLUMN, parts=parts)


def _q_lora_rank(config: Config) -> int | None:
    if config.names("q_lora_rank"):
        return config.optional_integer("q_lora_rank")
    return _DEFAULT_Q_LORA_RANK


def latent_cache(config: Config) -> Attention:
    """One latent vector and one rotary key for all heads."""
    size = config.integer("kv_lora_rank") + _rotary_width(config)
    heads = config.integer("num_attention_heads")
    topk = config.optional_integer("index_topk")
    return Attention(heads, 1, size, 0, AttentionKind.MLA, index_topk=topk)


def indexer(b: LayerBuilder) -> list[Module]:
    """DSA's indexer, whole on every rank."""
    config = b.config
    heads, size = config.integer("index_n_heads"), config.integer("index_head_dim")
    query = _q_lora_rank(config)
    if query is None:
        raise config.fail("q_lora_rank", "a rank: the indexer reads the query's latent vector")
    wk = [Output("wk", size), Output("weights_proj", heads)]
    return [
        b.replicated("self_attn.indexer.wq_b", query, heads * size),
        b.linear(
            "self_attn.indexer.wk_weights_proj", b.hidden, wk, Shard.REPLICATED, quantized=False
        ),
        Tensor("self_attn.indexer.k_norm.weight", (size,), "float32"),
        Tensor("self_attn.indexer.k_norm.bias", (size,), "float32"),
    ]


def index_cache(config: Config) -> Attention:
    """The indexer's keys: fp8 values with their fp32 scales, whatever the KV cache's dtype."""
    size = config.integer("index_head_dim")
    stored = size + size // _INDEXER_SCALE_GROUP * 4
    return Attention(config.integer("index_n_heads"), 1, stored, 0, AttentionKind.INDEXER)


def shared_moe(b: LayerBuilder) -> list[Module]:
    """Router with an expert bias, shared experts as one MLP, routed experts.

    GLM's router is kept in fp32 and always has the bias.
    """
    config = b.config
    experts, size = _experts(config), config.integer("moe_intermediate_size")
    shared = config.integer("n_shared_experts", 0, minimum=0)
    glm = _is_glm(config)
    biased = glm or config.string("topk_method", "") == "noaux_tc"
    modules: list[Module] = [b.router(experts, fp32=glm)]
    if biased:
        modules.append(Tensor("mlp.gate.e_score_correction_bias", (experts,), "float32"))
    if shared:
        mlp = b.gated_mlp(shared * size, "mlp.shared_experts")
        modules += mlp if glm else sequence_parallel(mlp)
    # The bias is added to sigmoid scores; without it they are softmax's, seldom renormalized.
    trtllm = biased or config.boolean("norm_topk_prob", False)
    active = config.integer("num_experts_per_tok")
    modules.append(b.experts(experts, active, size, trtllm=trtllm))
    return modules


def _rotary(text: Config) -> tuple[RotaryCache, ...]:
    """The table of the rotary part; the indexer has its own unless both interleave alike.

    YaRN's table stays in fp32 where vLLM runs the fused rotary kernel: in eager mode, and in the
    classes it does not compile (DSA).
    """
    if not _is_latent(text):
        part = text.number("partial_rotary_factor", _GLM_ROTARY_PART if _is_glm(text) else 1.0)
        return (rotary_cache(text.merged({"partial_rotary_factor": part})),)
    table = rotary_cache(text, size=text.integer("qk_rope_head_dim"))
    rope = text.rope_parameters
    scaled = rope.string("rope_type", rope.string("type", "default")) != "default"
    sparse = "index_topk" in text
    if scaled:
        dtype = "float32" if sparse else None
        table = replace(table, dtype=dtype, eager_dtype="float32")
    own_table = sparse and not text.boolean("indexer_rope_interleave", False)
    return (table, table) if own_table else (table,)


def _drafts(text: Config, scheme: QuantScheme, root: str) -> tuple[Draft, ...]:
    """The MTP layers behind the last decoder layer, with vocabulary matrices of their own."""
    count = text.integer("num_nextn_predict_layers", 0, minimum=0)
    if not count:
        return ()
    hidden, rows = text.integer("hidden_size"), text.integer("vocab_size")
    layers: list[Layer] = []
    around: list[Module] = []
    for index in range(text.num_layers, text.num_layers + count):
        b = LayerBuilder(text, scheme, f"{root}model.layers.{index}")
        layers.append(_layer(b, is_moe_layer(text, index), has_indexer(text, index)))
        around += [
            b.norm("enorm"),
            b.norm("hnorm"),
            b.replicated("eh_proj", 2 * hidden, hidden, quantized=False),
            b.norm("shared_head.norm"),
        ]
    return (
        Draft(
            "mtp",
            tuple(layers),
            tuple(around),
            Embedding("embed_tokens", rows, hidden),
            Embedding("shared_head.head", rows, hidden),
            rotary=_rotary(text),
        ),
    )
