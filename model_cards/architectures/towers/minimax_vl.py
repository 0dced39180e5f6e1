"""MiniMax M3's vision transformer, with the projector and the merger of patches behind it."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme


def vision_tower(config: Config, vision: Config, scheme: QuantScheme) -> Tower:
    """vLLM's `MiniMaxVLVisionModel`: no norm behind its last layer."""
    hidden, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    compression = vision.section("img_token_compression_config") or Config({}, vision.where)
    frames = compression.integer("temporal_patch_size", 2)
    axis = hidden // vision.integer("num_attention_heads") // 2 // 3  # pairs of one of t, h and w
    modules: list[Module] = [
        Tensor("patch_embedding", (hidden, vision.integer("num_channels"), frames, patch, patch)),
        Buffer("inv_freq", 3 * axis, "float32"),
        *layer_norm("pre_layrnorm", hidden),
    ]
    modules += blocks(
        scheme,
        "vision_tower.vision_model.encoder.layers",
        vision.num_layers,
        lambda path: _block(LayerBuilder(vision, scheme, path)),
    )
    merged = compression.integer("spatial_merge_size", 2) ** 2
    out = config.text.integer("hidden_size")
    inner = config.integer("projector_hidden_size", out)
    b = LayerBuilder(vision, scheme, "vision_tower")
    modules += _mlp(b, "multi_modal_projector", hidden, inner, out)
    modules += _mlp(b, "patch_merge_mlp", merged * out, inner, out)
    return Tower("vision", tuple(modules))


def _block(b: LayerBuilder) -> list[Module]:
    hidden, heads = b.hidden, b.config.integer("num_attention_heads")
    qkv = [Output(name, heads, hidden // heads) for name in ("q_proj", "k_proj", "v_proj")]
    parts = [output.name for output in qkv]
    inner = b.config.integer("intermediate_size")
    return [
        *layer_norm("layer_norm1", hidden),
        *layer_norm("layer_norm2", hidden),
        b.linear("self_attn.qkv_proj", hidden, qkv, Shard.COLUMN, bias=True, parts=parts),
        b.row("self_attn.out_proj", hidden, hidden, bias=True),
        b.column("fc1", hidden, inner, bias=True),
        b.row("fc2", inner, hidden, bias=True),
    ]


def _mlp(b: LayerBuilder, name: str, inputs: int, inner: int, out: int) -> list[Module]:
    return [
        b.column(f"{name}.linear_1", inputs, inner, bias=True),
        b.row(f"{name}.linear_2", inner, out, bias=True),
    ]
