"""The vision transformer of Qwen2.5-VL: RMSNorms, gated MLPs and a patch merger."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_ROTARY_POSITIONS = 8192


def vision_tower(vision: Config, scheme: QuantScheme, root: str) -> Tower:
    """vLLM's `Qwen2_5_VisionTransformer` from a `vision_config`."""
    hidden, heads = vision.integer("hidden_size", 3584), vision.integer("num_heads", 16)
    patch, frames = vision.integer("patch_size", 14), vision.integer("temporal_patch_size", 2)
    channels = vision.integer("in_channels", 3)
    modules: list[Module] = [Tensor("patch_embed", (hidden, channels, frames, patch, patch))]
    config = vision.merged({"hidden_size": hidden})
    modules += blocks(
        scheme,
        f"{root}.blocks",
        vision.integer("depth", 32),
        lambda path: _block(LayerBuilder(config, scheme, path), heads),
    )
    merged = hidden * vision.integer("spatial_merge_size", 2) ** 2
    top = LayerBuilder(config, scheme, f"{root}.merger")
    modules += [
        top.norm("ln_q"),
        top.column("mlp.0", merged, merged, bias=True),
        top.row("mlp.2", merged, vision.integer("out_hidden_size", 3584), bias=True),
    ]
    return Tower("vision", tuple(modules), (RotaryCache(_ROTARY_POSITIONS, hidden // heads // 2),))


def _block(b: LayerBuilder, heads: int) -> list[Module]:
    qkv = [Output(name, heads, b.hidden // heads) for name in ("q", "k", "v")]
    return [
        b.norm("norm1"),
        b.norm("norm2"),
        b.linear("attn.qkv", b.hidden, qkv, Shard.COLUMN, bias=True),
        b.row("attn.proj", b.hidden, b.hidden, bias=True),
        *b.gated_mlp(b.config.integer("intermediate_size", 3420), bias=True),
    ]
