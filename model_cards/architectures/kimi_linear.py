"""Kimi Linear: KDA layers with latent attention without positions in between, sparse MoE.

Kimi K3's language model is one too, with a gate on every layer's output (of full rank in KDA),
experts that work in a narrower space, and residuals that later layers attend to.
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
from model_cards.architectures.deepseek import latent_attention, latent_cache
from model_cards.architectures.kda import delta_attention, delta_settings
from model_cards.caches import Cache
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.fp8 import Fp8
from model_cards.quantization.scheme import QuantScheme

_MOE = "block_sparse_moe"
_SITU_PARAMETERS = 2  # of the activation of K3's experts: bounds of gate and up
_SMALLEST_SLICE = 256  # of an expert on one rank, in vLLM's KimiMoE
_ROW_ALIGNMENT = 16  # of the fused input projection of a KDA layer with a full-rank gate
_ROW_ALIGNMENT_FP8 = 128


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    return text_body(config, scheme)


def text_body(text: Config, scheme: QuantScheme, *, root: str = "") -> Body:
    """The language model of a `text` config whose modules have paths below `root`."""
    delta = frozenset(delta_settings(text).integers("kda_layers"))  # counted from 1

    def is_delta(index: int) -> bool:
        return index + 1 in delta

    layers = assemble(
        text,
        scheme,
        lambda b, index: _layer(b, delta=is_delta(index), moe=_is_moe_layer(text, index)),
        kind=lambda index: (is_delta(index), _is_moe_layer(text, index)),
        root=f"{root}model.layers",
    )
    embedding, head = vocabulary(
        text, scheme, tied=tied_embeddings(text, False), head=f"{root}lm_head"
    )
    hidden = text.integer("hidden_size")
    final: list[Module] = [Tensor("model.norm", (hidden,))]
    if _residual_block(text):
        final += _residual_mixer(LayerBuilder(text, scheme, f"{root}model"), "output_attn_res")
    active = text.integer("num_experts_per_token") if _experts(text) else 0
    width = text.integer("intermediate_size")
    if active:
        width = max(width, active * text.integer("moe_intermediate_size"))
    return Body(
        embedding,
        layers,
        tuple(final),
        head,
        (),
        max_intermediate_size=width,
        experts_per_token=active,
        residual_block=_residual_block(text),
    )


def _experts(text: Config) -> int:
    return text.integer("num_experts", 0, minimum=0)


def _is_moe_layer(text: Config, index: int) -> bool:
    return (
        _experts(text) > 0
        and index >= text.integer("first_k_dense_replace", 0, minimum=0)
        and index % text.integer("moe_layer_freq", 1) == 0
    )


def _residual_block(text: Config) -> int:
    """Layers whose outputs are added up before later layers attend to them, 0 without that."""
    return text.integer("attn_res_block_size", 0, minimum=0)


def _layer(b: LayerBuilder, *, delta: bool, moe: bool) -> Layer:
    attention, cache = _delta_attention(b) if delta else _latent_attention(b)
    ffn = _moe(b) if moe else sequence_parallel(b.gated_mlp(b.config.integer("intermediate_size")))
    modules = [
        *attention,
        *ffn,
        b.norm("input_layernorm"),
        b.norm("post_attention_layernorm"),
    ]
    if _residual_block(b.config):
        modules += _residual_mixer(b, "self_attention_res") + _residual_mixer(b, "mlp_res")
    return Layer(tuple(modules), (cache,))


def _residual_mixer(b: LayerBuilder, name: str) -> list[Module]:
    """A score for each residual that a layer may read."""
    return [b.norm(f"{name}_norm"), b.replicated(f"{name}_proj", b.hidden, 1, quantized=False)]


def _latent_attention(b: LayerBuilder) -> tuple[list[Module], Cache]:
    """vLLM's `MultiHeadLatentAttention`, with a unit scale and two inverse ones of its own."""
    if not b.config.boolean("mla_use_nope", False):
        raise b.config.fail("mla_use_nope", "true: vLLM's class has no rotary embedding")
    gate = b.config.boolean("mla_use_output_gate", False)
    scales = Buffer("self_attn.more_scales", 3, "float32")
    return [*latent_attention(b, output_gate=gate), scales], latent_cache(b.config)


def _delta_attention(b: LayerBuilder) -> tuple[list[Module], Cache]:
    """vLLM's `KimiGatedDeltaNetAttention`, and `KimiK3DeltaAttention` with a full-rank gate.

    Only the latter has a prefill kernel that hands out states, for bounded gates, and copies of
    the convolution and the norm for its fused decode kernel.
    """
    delta = delta_attention(b.config)
    heads, size = delta.heads, delta.head_size
    full_rank = delta.full_rank_gate
    names = ("q", "k", "v", "g") if full_rank else ("q", "k", "v")
    outputs = [Output(name, heads, size) for name in names]
    outputs += [Output("b", heads), Output("f_a", 1, size, replicable=True)]
    into = b.linear(
        "self_attn.in_proj_qkvgfab",
        b.hidden,
        outputs,
        Shard.COLUMN,
        parts=("q_proj", "k_proj", "v_proj", "b_proj", "f_a_proj"),
    )
    if full_rank:
        fp8 = isinstance(into.format, Fp8)
        into = replace(into, row_alignment=_ROW_ALIGNMENT_FP8 if fp8 else _ROW_ALIGNMENT)
    modules: list[Module] = [
        into,
        b.column("self_attn.f_b_proj", size, delta.features),
        *delta.recurrence(b),
        b.row("self_attn.o_proj", delta.features, b.hidden),
    ]
    if full_rank:
        conv = 3 * delta.conv_kernel * delta.features
        modules += [
            Buffer("self_attn.decode_conv1d", conv, "float32", sharded=True, fused_decode=True),
            Buffer("self_attn.decode_norm", size, "float32", fused_decode=True),
        ]
    else:
        modules += [
            b.replicated("self_attn.g_a_proj", b.hidden, size),
            b.column("self_attn.g_b_proj", size, delta.features),
        ]
    return modules, delta.state(exports_states=full_rank and delta.bounded_gate)


def _moe(b: LayerBuilder) -> list[Module]:
    """Sigmoid routing with a bias for each expert, shared experts as one MLP.

    Latent experts (`routed_expert_hidden_size`) work between a projection down and one up.
    """
    config = b.config
    experts, size = _experts(config), config.integer("moe_intermediate_size")
    latent = config.integer("routed_expert_hidden_size", 0, minimum=0)
    modules: list[Module] = [
        b.router(experts, f"{_MOE}.gate"),
        Tensor(f"{_MOE}.gate.e_score_correction_bias", (experts,), "float32"),
    ]
    shared = config.integer("num_shared_experts", 0, minimum=0)
    if shared:
        modules += sequence_parallel(b.gated_mlp(shared * size, f"{_MOE}.shared_experts"))
    if latent:
        modules.append(b.replicated(f"{_MOE}.routed_expert_down_proj", b.hidden, latent))
        modules.append(b.replicated(f"{_MOE}.routed_expert_up_proj", latent, b.hidden))
        if config.boolean("latent_moe_use_norm", False):
            modules.append(b.norm(f"{_MOE}.routed_expert_norm", latent))
    active = config.integer("num_experts_per_token")
    usual = "situ" if "activation_situ_beta" in config else "silu"
    silu = config.string("hidden_act", usual) == "silu"
    routed = b.experts(experts, active, size, f"{_MOE}.experts", hidden=latent or None, trtllm=silu)
    parameters = 0 if silu else _SITU_PARAMETERS
    modules.append(
        replace(routed, smallest_slice=_SMALLEST_SLICE, activation_parameters=parameters)
    )
    return modules
