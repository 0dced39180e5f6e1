"""Gemma 3n's audio encoder, and what embeds the output of its encoders.

The encoder is transformers' `Gemma3nAudioEncoder`: plain layers that vLLM neither splits nor
quantizes.
"""

from __future__ import annotations

from typing import Final

from model_cards.config import Config
from model_cards.modules import Buffer, Embedding, Linear, Module, Output, Shard, Tensor
from model_cards.quantization.formats import UNQUANTIZED

_LARGEST_KERNEL: Final = 2**20  # keeps arithmetic sane


def embedder(encoder: Config, default: int, out: int) -> list[Module]:
    """vLLM's `Gemma3nMultimodalEmbedder`: soft tokens, or its own vocabulary, to hidden states."""
    hidden = encoder.integer("hidden_size", default)
    outputs = (Output("embedding_projection", out),)
    return [
        Embedding("embedding", encoder.integer("vocab_size", 128), hidden),
        Tensor("hard_embedding_norm", (hidden,)),
        Tensor("soft_embedding_norm", (hidden,)),
        Linear("embedding_projection", hidden, outputs, Shard.ROW, False, UNQUANTIZED),
        Buffer("embedding_post_projection_norm", out),  # without a learned weight
    ]


def audio_encoder(audio: Config) -> list[Module]:
    """A conformer behind two convolutions that shorten the spectrogram."""
    hidden = audio.integer("hidden_size", 1536)
    modules = _subsampling(audio, hidden)
    for _ in range(audio.integer("conf_num_hidden_layers", 12)):
        modules += _feed_forward("ffw_layer_start", hidden)
        modules += _attention(audio, hidden)
        modules += _convolution(audio, hidden)
        modules += _feed_forward("ffw_layer_end", hidden)
        modules += [Tensor("norm", (hidden,)), Buffer("gradient_clipping", 1)]
    return modules


def _subsampling(audio: Config, hidden: int) -> list[Module]:
    channels = audio.integers("sscp_conv_channel_size", minimum=1) or (128, 32)
    kernels, strides = (
        _pairs(audio, "sscp_conv_kernel_size", 3),
        _pairs(audio, "sscp_conv_stride_size", 2),
    )
    if not len(channels) == len(kernels) == len(strides):
        raise audio.fail("sscp_conv_channel_size", f"one number for each of {len(kernels)} kernels")
    modules: list[Module] = []
    inputs, frequencies = 1, audio.integer("input_feat_size", 128)
    for index, (out, kernel, stride) in enumerate(zip(channels, kernels, strides, strict=True)):
        modules += [
            Tensor(f"conv_{index}.conv", (out, inputs, *kernel)),
            Tensor(f"conv_{index}.norm", (out,)),
        ]
        inputs, frequencies = out, (frequencies + 2 - kernel[1]) // stride[1] + 1  # padded by one
    if frequencies < 1:
        raise audio.fail("input_feat_size", "more than the convolutions take away")
    return [*modules, Tensor("input_proj_linear", (hidden, inputs * frequencies))]


def _pairs(audio: Config, key: str, default: int) -> list[tuple[int, int]]:
    """(time, frequency) of each of the two convolutions."""
    pairs = audio.raw(key)
    if pairs is None:
        return [(default, default)] * 2
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(type(n) is int and 0 < n < _LARGEST_KERNEL for n in pair)
        for pair in pairs
    ):
        raise audio.fail(key, "pairs of whole numbers")
    return [(pair[0], pair[1]) for pair in pairs]


def _feed_forward(name: str, hidden: int) -> list[Module]:
    return [
        Tensor(f"{name}.pre_layer_norm", (hidden,)),
        Tensor(f"{name}.ffw_layer_1", (4 * hidden, hidden)),
        Tensor(f"{name}.ffw_layer_2", (hidden, 4 * hidden)),
        Tensor(f"{name}.post_layer_norm", (hidden,)),
        Buffer(f"{name}.gradient_clipping", 1),
    ]


def _attention(audio: Config, hidden: int) -> list[Module]:
    """Attention in chunks, with relative positions."""
    chunk = audio.integer("conf_attention_chunk_size", 12)
    left = audio.integer("conf_attention_context_left", 13, minimum=0)
    right = audio.integer("conf_attention_context_right", 0, minimum=0)
    context = chunk + max(0, left - 1) + right
    size = hidden // audio.integer("conf_num_attention_heads", 8)
    matrices = ("q_proj", "k_proj", "v_proj", "pos_proj", "post")
    return [
        *(Tensor(f"attention.{name}", (hidden, hidden)) for name in matrices),
        Tensor("attention.pre_attn_norm", (hidden,)),
        Tensor("attention.post_norm", (hidden,)),
        Tensor("attention.per_dim_scale", (size,)),
        Buffer("attention.inv_timescales", hidden // 2, "float32"),
        Buffer("attention.local_causal_valid_mask", chunk * context, "uint8"),
        Buffer("attention.softcap", 1, "float32"),
        Buffer("attention.q_scale", 1),
        Buffer("attention.gradient_clipping", 1),
    ]


def _convolution(audio: Config, hidden: int) -> list[Module]:
    return [
        Tensor("lconv1d.pre_layer_norm", (hidden,)),
        Tensor("lconv1d.linear_start", (2 * hidden, hidden)),
        Tensor("lconv1d.depthwise_conv1d", (hidden, audio.integer("conf_conv_kernel_size", 5))),
        Tensor("lconv1d.conv_norm", (hidden,)),
        Tensor("lconv1d.linear_end", (hidden, hidden)),
        Buffer("lconv1d.gradient_clipping", 1),
    ]
