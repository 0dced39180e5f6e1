"""GLM-5.3-Flash's vision transformer, with the convolution and the MLP that merge its patches."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION

_ROTARY_PART = 0.5  # of a head


def vision_tower(config: Config, vision: Config) -> Tower:
    """vLLM's `Glm5NextVisionTransformer`, which no checkpoint quantizes."""
    hidden, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    frames, channels = vision.integer("temporal_patch_size"), vision.integer("in_channels", 3)
    out, side = vision.integer("out_hidden_size"), vision.integer("spatial_merge_size")
    modules: list[Module] = [
        Tensor("patch_embed.proj", (hidden, channels, frames, patch, patch)),
        Tensor("patch_embed.proj.bias", (hidden,)),
        Tensor("post_layernorm", (hidden,)),
        Tensor("downsample", (out, hidden, side, side)),
        Tensor("downsample.bias", (out,)),
    ]
    for index in range(vision.integer("depth")):
        modules += _block(LayerBuilder(vision, NO_QUANTIZATION, f"visual.blocks.{index}"))
    b = LayerBuilder(vision.merged({"hidden_size": out}), NO_QUANTIZATION, "visual")
    modules += [
        b.column("merger.proj", out, out),
        *layer_norm("merger.post_projection_norm", out),
        *b.gated_mlp(vision.integer("projection_intermediate_size"), "merger"),
    ]
    head = hidden // vision.integer("num_heads")
    positions = config.text.integer("max_position_embeddings")
    table = RotaryCache(positions, int(head * _ROTARY_PART))
    return Tower("vision", tuple(modules), (table,))


def _block(b: LayerBuilder) -> list[Module]:
    """Norms of q and k heads; biases everywhere."""
    hidden, heads = b.hidden, b.config.integer("num_heads")
    size = hidden // heads
    qkv = [Output(name, heads, size) for name in ("q", "k", "v")]
    return [
        b.norm("norm1"),
        b.norm("norm2"),
        b.norm("attn.q_norm", size),
        b.norm("attn.k_norm", size),
        b.linear("attn.qkv", hidden, qkv, Shard.COLUMN, bias=True),
        b.row("attn.proj", hidden, hidden, bias=True),
        *b.gated_mlp(b.config.integer("intermediate_size"), bias=True),
    ]
