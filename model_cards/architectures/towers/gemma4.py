"""The encoders of Gemma 4, which vLLM runs from transformers: whole on every rank."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme

_KERNEL_TILE = 64  # most quantized kernels need dimensions of whole tiles; vLLM skips others
_ANY_SIZE = frozenset({"compressed-tensors", "bitsandbytes", "torchao"})


def vision_tower(vision: Config, scheme: QuantScheme, out: int) -> Tower:
    """Patch embedder, encoder layers and the projection to the language model's width `out`."""
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    if scheme.method not in _ANY_SIZE and (hidden % _KERNEL_TILE or inner % _KERNEL_TILE):
        scheme = NO_QUANTIZATION
    patch = vision.integer("patch_size", 16)
    b = LayerBuilder(vision, scheme, "model.vision_tower.patch_embedder")
    modules: list[Module] = [
        b.replicated("input_proj", 3 * patch * patch, hidden),
        Tensor("position_embedding_table", (2, vision.integer("position_embedding_size"), hidden)),
    ]
    modules += blocks(
        scheme,
        "model.vision_tower.encoder.layers",
        vision.num_layers,
        lambda path: _layer(LayerBuilder(vision, scheme, path)),
    )
    # Inverse frequencies of one axis, and a second copy of them.
    modules.append(Buffer("rotary.inv_freq", 2 * (vision.head_size // 4), "float32"))
    if vision.boolean("standardize", False):
        modules += [Tensor("std_bias", (hidden,)), Tensor("std_scale", (hidden,))]
    project = LayerBuilder(vision, scheme, "model.embed_vision")
    modules += [
        project.replicated("embedding_projection", hidden, out),
        Buffer("embedding_pre_projection_norm", hidden),
    ]
    return Tower("vision", tuple(modules))


def _layer(b: LayerBuilder) -> list[Module]:
    hidden, inner, size = b.hidden, b.config.integer("intermediate_size"), b.config.head_size
    heads, kv_heads = b.config.integer("num_attention_heads"), b.config.num_kv_heads
    shapes = {
        "self_attn.q_proj": (hidden, heads * size),
        "self_attn.k_proj": (hidden, kv_heads * size),
        "self_attn.v_proj": (hidden, kv_heads * size),
        "self_attn.o_proj": (heads * size, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    modules: list[Module] = [b.replicated(name, *shape) for name, shape in shapes.items()]
    if b.config.boolean("use_clipped_linears", False):
        modules += [Buffer(f"{name}.clip_bounds", 4) for name in shapes]
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules += [b.norm(f"{name}_layernorm") for name in norms]
    return [*modules, b.norm("self_attn.q_norm", size), b.norm("self_attn.k_norm", size)]


def audio_tower(audio: Config, scheme: QuantScheme, out: int) -> Tower:
    """A conformer behind two convolutions that shorten the spectrogram, and the projection."""
    hidden, width = audio.integer("hidden_size", 1024), audio.integer("output_proj_dims", 1536)
    if scheme.method not in _ANY_SIZE and hidden % _KERNEL_TILE:
        scheme = NO_QUANTIZATION
    channels = audio.integers("subsampling_conv_channels", minimum=1) or (128, 32)
    if len(channels) != 2:
        raise audio.fail("subsampling_conv_channels", "two numbers")
    first, second = channels
    audio = audio.merged({"hidden_size": hidden})
    b = LayerBuilder(audio, scheme, "model.audio_tower")
    modules: list[Module] = [
        Tensor("subsample.layer0.conv", (first, 1, 3, 3)),
        Tensor("subsample.layer0.norm", (first,)),
        Tensor("subsample.layer1.conv", (second, first, 3, 3)),
        Tensor("subsample.layer1.norm", (second,)),
        b.replicated("subsample.input_proj_linear", first // 4 * second, hidden),
        Buffer("rel_pos_enc.inv_timescales", hidden // 2),
        b.replicated("output_proj", hidden, width, bias=True),
    ]
    modules += blocks(
        scheme,
        "model.audio_tower.layers",
        audio.integer("num_hidden_layers", 12),
        lambda path: _conformer_layer(LayerBuilder(audio, scheme, path), hidden),
    )
    project = LayerBuilder(audio, scheme, "model.embed_audio")
    modules += [
        project.replicated("embedding_projection", width, out),
        Buffer("embedding_pre_projection_norm", width),
    ]
    return Tower("audio", tuple(modules))


def _conformer_layer(b: LayerBuilder, hidden: int) -> list[Module]:
    """Half a feed-forward step, chunked attention, a convolution, the other half."""
    shapes = {
        "feed_forward1.ffw_layer_1": (hidden, 4 * hidden),
        "feed_forward1.ffw_layer_2": (4 * hidden, hidden),
        "feed_forward2.ffw_layer_1": (hidden, 4 * hidden),
        "feed_forward2.ffw_layer_2": (4 * hidden, hidden),
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (hidden, hidden),
        "self_attn.v_proj": (hidden, hidden),
        "self_attn.post": (hidden, hidden),
        "lconv1d.linear_start": (hidden, 2 * hidden),
        "lconv1d.linear_end": (hidden, hidden),
    }
    modules: list[Module] = [b.replicated(name, *shape) for name, shape in shapes.items()]
    if b.config.boolean("use_clipped_linears", True):
        modules += [Buffer(f"{name}.clip_bounds", 4) for name in shapes]
    heads = b.config.integer("num_attention_heads", 8)
    norms = (
        *(f"feed_forward{half}.{place}_layer_norm" for half in (1, 2) for place in ("pre", "post")),
        "lconv1d.pre_layer_norm",
        "lconv1d.conv_norm",
        "norm_pre_attn",
        "norm_post_attn",
        "norm_out",
    )
    return [
        *modules,
        b.replicated("self_attn.relative_k_proj", hidden, hidden),
        Tensor("self_attn.per_dim_scale", (hidden // heads,)),
        Buffer("self_attn.softcap", 1),
        Tensor("lconv1d.depthwise_conv1d", (hidden, b.config.integer("conv_kernel_size", 5))),
        *(b.norm(name, hidden) for name in norms),
    ]
