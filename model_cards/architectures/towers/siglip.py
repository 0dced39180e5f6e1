"""SigLIP: a ViT with learned positions and LayerNorms (Gemma 3)."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

# vLLM quantizes the MLP only where both of its widths are multiples of this.
_MLP_ALIGNMENT = 64


def siglip(vision: Config, scheme: QuantScheme, root: str) -> list[Module]:
    """vLLM's `SiglipVisionModel` from a `vision_config`, without a pooling head."""
    hidden, patch = vision.integer("hidden_size", 768), vision.integer("patch_size", 16)
    positions = (vision.integer("image_size", 224) // patch) ** 2
    modules: list[Module] = [
        Tensor("patch_embedding", (hidden, vision.integer("num_channels", 3), patch, patch)),
        Tensor("patch_embedding.bias", (hidden,)),
        Tensor("position_embedding", (positions, hidden)),
        Buffer("position_ids", positions, "int64"),
    ]
    config = vision.merged({"hidden_size": hidden})
    modules += blocks(
        scheme,
        f"{root}.encoder.layers",
        vision.integer("num_hidden_layers", 12),
        lambda path: _block(LayerBuilder(config, scheme, path)),
    )
    return [*modules, *layer_norm("post_layernorm", hidden)]


def _block(b: LayerBuilder) -> list[Module]:
    hidden, heads = b.hidden, b.config.integer("num_attention_heads", 12)
    inner = b.config.integer("intermediate_size", 3072)
    quantized = hidden % _MLP_ALIGNMENT == 0 and inner % _MLP_ALIGNMENT == 0
    fc1, fc2 = [Output("fc1", inner)], [Output("fc2", hidden)]
    qkv = [Output(name, heads, hidden // heads) for name in ("q_proj", "k_proj", "v_proj")]
    parts = [output.name for output in qkv]
    return [
        *layer_norm("layer_norm1", hidden),
        *layer_norm("layer_norm2", hidden),
        b.linear("self_attn.qkv_proj", hidden, qkv, Shard.COLUMN, bias=True, parts=parts),
        b.row("self_attn.out_proj", hidden, hidden, bias=True),
        b.linear("mlp.fc1", hidden, fc1, Shard.COLUMN, bias=True, quantized=quantized),
        b.linear("mlp.fc2", inner, fc2, Shard.ROW, bias=True, quantized=quantized),
    ]
