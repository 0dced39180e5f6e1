"""Whisper's audio encoder: two convolutions over the spectrogram, then a transformer."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_KERNEL = 3  # frames that a convolution looks at


def whisper_encoder(config: Config, scheme: QuantScheme, root: str) -> list[Module]:
    """vLLM's `WhisperEncoder`."""
    hidden = config.integer("d_model")
    shape = config.merged({"hidden_size": hidden})
    mel, positions = config.integer("num_mel_bins"), config.integer("max_source_positions")
    return [
        Tensor("conv1.weight", (hidden, mel, _KERNEL)),
        Tensor("conv1.bias", (hidden,)),
        Tensor("conv2.weight", (hidden, hidden, _KERNEL)),
        Tensor("conv2.bias", (hidden,)),
        Tensor("embed_positions", (positions, hidden)),
        *blocks(
            scheme,
            f"{root}.layers",
            config.integer("encoder_layers"),
            lambda path: _block(LayerBuilder(shape, scheme, path)),
        ),
        Tensor("layer_norm", (2, hidden)),
    ]


def _block(b: LayerBuilder) -> list[Module]:
    heads = b.config.integer("encoder_attention_heads")
    parts = ("q_proj", "k_proj", "v_proj")
    qkv = [Output(name, heads, b.hidden // heads) for name in parts]
    return [
        b.linear("self_attn.qkv_proj", b.hidden, qkv, Shard.COLUMN, bias=True, parts=parts),
        b.row("self_attn.out_proj", b.hidden, b.hidden, bias=True),
        b.layer_norm("self_attn_layer_norm"),
        *b.plain_mlp(b.config.integer("encoder_ffn_dim"), "fc1", "fc2", bias=True),
        b.layer_norm("final_layer_norm"),
    ]
