"""CLIP's vision transformer: a class token, learned positions, LayerNorms (Phi 3 Vision)."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme


def clip(vision: Config, scheme: QuantScheme, root: str, *, layers: int) -> list[Module]:
    """vLLM's `CLIPVisionModel`: as many of its layers as the language model looks at."""
    hidden, patch = vision.integer("hidden_size", 768), vision.integer("patch_size", 32)
    positions = (vision.integer("image_size", 224) // patch) ** 2 + 1
    modules: list[Module] = [
        Tensor("class_embedding", (hidden,)),
        Tensor("patch_embedding", (hidden, vision.integer("num_channels", 3), patch, patch)),
        Tensor("position_embedding", (positions, hidden)),
        Buffer("position_ids", positions, "int64"),
        *layer_norm("pre_layrnorm", hidden),
    ]
    config = vision.merged({"hidden_size": hidden})
    modules += blocks(
        scheme,
        f"{root}.encoder.layers",
        layers,
        lambda path: _block(LayerBuilder(config, scheme, path)),
    )
    if layers == vision.integer("num_hidden_layers", 12):
        modules += layer_norm("post_layernorm", hidden)
    return modules


def _block(b: LayerBuilder) -> list[Module]:
    hidden, heads = b.hidden, b.config.integer("num_attention_heads", 12)
    inner = b.config.integer("intermediate_size", 3072)
    qkv = [Output(name, heads, hidden // heads) for name in ("q_proj", "k_proj", "v_proj")]
    parts = [output.name for output in qkv]
    return [
        *layer_norm("layer_norm1", hidden),
        *layer_norm("layer_norm2", hidden),
        b.linear("self_attn.qkv_proj", hidden, qkv, Shard.COLUMN, bias=True, parts=parts),
        b.row("self_attn.out_proj", hidden, hidden, bias=True),
        b.column("mlp.fc1", hidden, inner, bias=True),
        b.row("mlp.fc2", inner, hidden, bias=True),
    ]
