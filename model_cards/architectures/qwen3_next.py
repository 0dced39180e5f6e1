"""Qwen 3 Next: gated delta net layers with full attention in between, sparse MoE."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    sequence_parallel,
    tied_embeddings,
    vocabulary,
)
from model_cards.caches import Cache, RecurrentState, StateKind
from model_cards.card import Draft, Layer
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

# Methods whose Marlin kernel does not take the narrow b and a projections of one rank.
_REPLICATED_BA = frozenset({"awq", "gptq", "awq_marlin", "gptq_marlin"})


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    types = layer_types(config)
    dense = frozenset(config.integers("mlp_only_layers"))
    step = config.integer("decoder_sparse_step", 1)
    state = delta_net_state(config)

    def is_sparse(index: int) -> bool:
        return index not in dense and (index + 1) % step == 0

    def layer(b: LayerBuilder, index: int) -> Layer:
        dense_size = config.integer("intermediate_size")
        ffn = sparse_moe(b) if is_sparse(index) else b.gated_mlp(dense_size)
        if types[index] == "linear_attention":
            return decoder_layer(b, gated_delta_net(b, interleaved=True), ffn, state)
        return decoder_layer(b, gated_attention(b), ffn, b.cache())

    embedding, head = vocabulary(config, scheme, tied=tied_embeddings(config, False))
    active, size = config.integer("num_experts_per_tok"), config.integer("moe_intermediate_size")
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda i: (types[i], is_sparse(i))),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=active * size,
        experts_per_token=active,
        embedding_on_every_stage=True,
        drafts=(mtp(config, scheme, moe=True),),
    )


def layer_types(config: Config) -> tuple[str, ...]:
    """`linear_attention` or `full_attention` for every layer."""
    types = config.strings("layer_types")
    if not types:
        period = config.integer("full_attention_interval", 4)
        return tuple(
            "full_attention" if (index + 1) % period == 0 else "linear_attention"
            for index in range(config.num_layers)
        )
    if len(types) != config.num_layers or set(types) - {"linear_attention", "full_attention"}:
        raise config.fail("layer_types", f"linear or full attention for {config.num_layers} layers")
    return types


def decoder_layer(b: LayerBuilder, mixer: list[Module], ffn: list[Module], *caches: Cache) -> Layer:
    """Mixer and feed-forward, each behind a norm."""
    norms = [b.norm("input_layernorm"), b.norm("post_attention_layernorm")]
    return Layer((*mixer, *ffn, *norms), caches)


def gated_attention(b: LayerBuilder) -> list[Module]:
    """Attention whose q projection also gives an output gate (`attn_output_gate`)."""
    gate = b.config.boolean("attn_output_gate", True)
    return b.attention(qkv_bias=b.config.boolean("qkv_bias", False), qk_norm=True, output_gate=gate)


def gated_delta_net(b: LayerBuilder, *, interleaved: bool) -> list[Module]:
    """vLLM's `QwenGatedDeltaNetAttention`.

    `interleaved` checkpoints (Qwen3-Next) store q, k, v and z as one matrix, and b and a as one.
    """
    config = b.config
    values = config.integer("linear_num_value_heads")
    key = config.integer("linear_num_key_heads") * config.integer("linear_key_head_dim")
    head = config.integer("linear_value_head_dim")
    value = values * head
    qkvz = [Output("qkvz", 2 * key + 2 * value)]
    ba = [Output("ba", 2 * values)]
    parts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    if not interleaved:
        qkvz = [Output("q", key), Output("k", key), Output("v", value), Output("z", value)]
        ba = [Output("b", values), Output("a", values)]
        parts = (("in_proj_qkv", "in_proj_z"), ("in_proj_b", "in_proj_a"))
    ba_shard = Shard.COLUMN
    if not interleaved and b.scheme.method in _REPLICATED_BA:
        ba_shard = Shard.REPLICATED
    conv = [Output("conv1d", 2 * key + value)]
    return [
        b.linear(
            "linear_attn.conv1d",
            config.integer("linear_conv_kernel_dim"),
            conv,
            Shard.COLUMN,
            quantized=False,
        ),
        b.linear("linear_attn.in_proj_qkvz", b.hidden, qkvz, Shard.COLUMN, parts=parts[0]),
        b.linear("linear_attn.in_proj_ba", b.hidden, ba, ba_shard, parts=parts[1]),
        Tensor("linear_attn.dt_bias", (values,), sharded=True),
        Tensor("linear_attn.A_log", (values,), "float32", sharded=True),
        Tensor("linear_attn.norm", (head,)),
        b.row("linear_attn.out_proj", value, b.hidden),
    ]


def delta_net_state(config: Config, dtype: str | None = None) -> RecurrentState:
    """Convolution state of q, k and v, and one matrix for every value head."""
    values, size = config.integer("linear_num_value_heads"), config.integer("linear_value_head_dim")
    keys, key = config.integer("linear_num_key_heads"), config.integer("linear_key_head_dim")
    return RecurrentState(
        StateKind.GDN,
        conv_channels=2 * keys * key + values * size,
        conv_kernel=config.integer("linear_conv_kernel_dim"),
        heads=values,
        head_elements=size * key,
        key_size=key,
        dtype=dtype,
    )


def sparse_moe(b: LayerBuilder) -> list[Module]:
    """Router, routed experts, and a shared expert behind a gate of its own."""
    config = b.config
    modules: list[Module] = [b.router(config.integer("num_experts"))]
    modules.append(b.replicated("mlp.shared_expert_gate", b.hidden, 1, quantized=False))
    shared = config.integer("shared_expert_intermediate_size", 0, minimum=0)
    if shared:
        modules += sequence_parallel(b.gated_mlp(shared, "mlp.shared_expert"))
    modules.append(
        b.experts(
            config.integer("num_experts"),
            config.integer("num_experts_per_tok"),
            config.integer("moe_intermediate_size"),
        )
    )
    return modules


def mtp(config: Config, scheme: QuantScheme, *, moe: bool, root: str = "mtp") -> Draft:
    """The multi-token-prediction head: full-attention layers behind a projection."""
    layers = []
    for index in range(config.integer("mtp_num_hidden_layers", 1)):
        b = LayerBuilder(config, scheme, f"{root}.layers.{index}")
        ffn = sparse_moe(b) if moe else b.gated_mlp(config.integer("intermediate_size"))
        layers.append(decoder_layer(b, gated_attention(b), ffn, b.cache()))
    top = LayerBuilder(config, scheme, root)
    # vLLM never quantizes the projection of an NVFP4 checkpoint.
    around = (
        top.linear(
            "fc",
            2 * top.hidden,
            [Output("fc", top.hidden)],
            Shard.COLUMN,
            quantized=scheme.method != "modelopt_fp4",
        ),
        top.norm("norm"),
        top.norm("pre_fc_norm_hidden"),
        top.norm("pre_fc_norm_embedding"),
    )
    return Draft("mtp", tuple(layers), around, rotary=(rotary_cache(config),))
