"""Gemma 3n: AltUp's parallel hidden states, an embedding for every layer, caches shared by layers.

Behind a convolutional vision encoder and a conformer for audio.
"""

from __future__ import annotations

from model_cards.architectures.decoder import (
    ATTENTION_SCALES,
    Body,
    LayerBuilder,
    assemble,
    language_config,
    layer_windows,
    tied_embeddings,
    vocabulary,
)
from model_cards.architectures.gemma import rotary_tables
from model_cards.architectures.towers import mobilenet_v5
from model_cards.architectures.towers.gemma3n import audio_encoder, embedder
from model_cards.card import Layer, Tower
from model_cards.config import Config
from model_cards.modules import Buffer, Embedding, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

CHECKPOINT_NAMES = {
    "model.language_model.": "language_model.model.",
    "model.embed_audio.": "embed_audio.",
    "model.embed_vision.": "embed_vision.",
    "model.vision_tower.": "vision_tower.",
    "model.audio_tower.": "audio_tower.",
    "model.": "language_model.model.",
}
_ROOT = "language_model.model"
# Normalizers of the embedding, of its per-layer part, of their projection and of their sum.
_SCALARS = 4


def describes(config: Config) -> bool:
    """Whether the vision encoder is the modelled one."""
    vision = config.section("vision_config")
    name = mobilenet_v5.NAME
    return vision is not None and vision.string("architecture", name) == name


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    text = language_config(config, tied=True)
    windows = layer_windows(text, lambda index: (index + 1) % 5 != 0)
    widths = _widths(text)
    per_layer = text.integer("hidden_size_per_layer_input", 256)
    first_shared = text.num_layers - text.integer("num_kv_shared_layers", 15, minimum=0)

    def layer(b: LayerBuilder, index: int) -> Layer:
        shared = index >= first_shared
        modules = (
            *_alternating_updates(b),
            *_attention(b, shared=shared),
            *b.gated_mlp(widths[index]),
            *_learned_residual(b),
            b.replicated("per_layer_input_gate", b.hidden, per_layer),
            b.replicated("per_layer_projection", per_layer, b.hidden),
            b.norm("input_layernorm"),
            b.norm("post_attention_layernorm"),
            b.norm("pre_feedforward_layernorm"),
            b.norm("post_feedforward_layernorm"),
            b.norm("post_per_layer_input_norm"),
        )
        return Layer(modules, () if shared else (b.cache(windows[index]),))

    tied = tied_embeddings(text, True)
    embedding, head = vocabulary(text, scheme, tied=tied, head="language_model.lm_head")
    return Body(
        embedding,
        assemble(
            text,
            scheme,
            layer,
            kind=lambda index: (windows[index], widths[index], index >= first_shared),
            root=f"{_ROOT}.layers",
        ),
        (Tensor("norm", (text.integer("hidden_size"),)),),
        head,
        rotary_tables(text),
        max_intermediate_size=max(widths),
        beside=_beside(text, scheme, per_layer),
        batch_elements=per_layer * text.num_layers,
        towers=_towers(config),
    )


def _widths(text: Config) -> tuple[int, ...]:
    """Width of every layer's MLP."""
    if not isinstance(text.raw("intermediate_size"), list):
        return (text.integer("intermediate_size", 16_384),) * text.num_layers
    widths = text.integers("intermediate_size", minimum=1)
    if len(widths) != text.num_layers:
        raise text.fail("intermediate_size", f"one entry for each of {text.num_layers} layers")
    return widths


def _alternating_updates(b: LayerBuilder) -> list[Module]:
    """AltUp: predicts the parallel hidden states, and corrects them by what the layer computed."""
    inputs = b.config.integer("altup_num_inputs", 4)
    return [
        b.replicated("altup.correction_coefs", inputs, inputs),
        b.replicated("altup.prediction_coefs", inputs, inputs**2),
        b.replicated("altup.modality_router", b.hidden, inputs),
        b.norm("altup.router_norm"),
        Buffer("altup.router_input_scale", 1),
        Tensor("altup.correct_output_scale", (b.hidden,), "float32"),
    ]


def _learned_residual(b: LayerBuilder) -> list[Module]:
    """LAuReL: a low-rank residual beside attention."""
    rank = b.config.integer("laurel_rank", 64)
    return [
        b.column("laurel.linear_left", b.hidden, rank),
        b.row("laurel.linear_right", rank, b.hidden),
        b.norm("laurel.post_laurel_norm"),
    ]


def _attention(b: LayerBuilder, *, shared: bool) -> list[Module]:
    """Attention; a `shared` layer has queries only, and reads the cache of an earlier layer."""
    heads, size = b.config.integer("num_attention_heads"), b.config.head_size
    bias = b.config.boolean("attention_bias", False)
    if not shared:
        # The norm of the values has no learned weight.
        norm = Buffer("self_attn.v_norm", size)
        return [*b.attention(qkv_bias=bias, o_bias=bias, qk_norm=True), norm]
    query = [Output("q_proj", heads, size)]
    return [
        b.linear("self_attn.q_proj", b.hidden, query, Shard.COLUMN, bias=bias),
        b.row("self_attn.o_proj", heads * size, b.hidden, bias=bias),
        b.norm("self_attn.q_norm", size),
        ATTENTION_SCALES,
    ]


def _beside(text: Config, scheme: QuantScheme, per_layer: int) -> tuple[Module, ...]:
    """The per-layer embedding, and the projections into and out of AltUp's hidden states."""
    b = LayerBuilder(text, scheme, f"{_ROOT}.self_decoder")
    out = LayerBuilder(text, scheme, _ROOT)
    width = per_layer * text.num_layers
    rows = text.integer("vocab_size_per_layer_input", 262_144)
    others = range(text.integer("altup_num_inputs", 4) - 1)
    return (
        Embedding("embed_tokens_per_layer", rows, width),
        b.column("per_layer_model_projection", b.hidden, width),
        b.norm("per_layer_projection_norm", per_layer),
        Buffer("scalars", _SCALARS),
        *(b.column(f"altup_projections.{i}", b.hidden, b.hidden) for i in others),
        *(out.column(f"altup_unembed_projections.{i}", b.hidden, b.hidden) for i in others),
    )


def _towers(config: Config) -> tuple[Tower, ...]:
    """Encoders of transformers, whole on every rank; only what embeds their output is split."""
    hidden = config.text.integer("hidden_size")
    vision, audio = config.section("vision_config"), config.section("audio_config")
    towers = []
    if vision is not None:
        modules = (*mobilenet_v5.encoder(), *embedder(vision, 2048, hidden))
        towers.append(Tower("vision", modules, data_parallel=False))
    if audio is not None:
        modules = (*audio_encoder(audio), *embedder(audio, 1536, hidden))
        towers.append(Tower("audio", modules, data_parallel=False))
    return tuple(towers)
