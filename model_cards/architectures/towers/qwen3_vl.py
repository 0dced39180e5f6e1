"""The vision transformer of Qwen3-VL, Qwen3.5 and later: a ViT with patch merger."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme

_ROTARY_POSITIONS = 8192


def vision_tower(vision: Config, scheme: QuantScheme, root: str = "model.visual") -> Tower:
    """vLLM's `Qwen3_VisionTransformer` from a `vision_config`."""
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_heads")
    patch, frames = vision.integer("patch_size"), vision.integer("temporal_patch_size", 2)
    merged = hidden * vision.integer("spatial_merge_size", 2) ** 2
    out = vision.integer("out_hidden_size")
    deepstack = deepstack_levels(vision)
    modules: list[Module] = [
        Tensor("patch_embed", (hidden, vision.integer("in_channels", 3), frames, patch, patch)),
        Tensor("patch_embed.bias", (hidden,)),
        Tensor("pos_embed", (vision.integer("num_position_embeddings"), hidden)),
    ]
    modules += blocks(
        scheme,
        f"{root}.blocks",
        vision.integer("depth"),
        lambda path: _block(LayerBuilder(vision, scheme, path), heads),
    )
    top = LayerBuilder(vision, scheme, root)
    modules += _merger(top, "merger", hidden, merged, out)
    for index in range(deepstack):
        modules += _merger(top, f"deepstack_merger_list.{index}", merged, merged, out)
    rotary = RotaryCache(_ROTARY_POSITIONS, hidden // heads // 2)
    return Tower("vision", tuple(modules), (rotary,))


def deepstack_levels(vision: Config) -> int:
    """Blocks of the tower whose output is also merged and fed to decoder layers."""
    return len(vision.integers("deepstack_visual_indexes"))


def _block(b: LayerBuilder, heads: int) -> list[Module]:
    hidden, inner = b.hidden, b.config.integer("intermediate_size")
    size = hidden // heads
    qkv = [Output(name, heads, size) for name in ("q", "k", "v")]
    return [
        *layer_norm("norm1", hidden),
        *layer_norm("norm2", hidden),
        b.linear("attn.qkv", hidden, qkv, Shard.COLUMN, bias=True),
        b.row("attn.proj", hidden, hidden, bias=True),
        b.column("mlp.linear_fc1", hidden, inner, bias=True),
        b.row("mlp.linear_fc2", inner, hidden, bias=True),
    ]


def _merger(b: LayerBuilder, name: str, norm: int, merged: int, out: int) -> list[Module]:
    return [
        *layer_norm(f"{name}.norm", norm),
        b.column(f"{name}.linear_fc1", merged, merged, bias=True),
        b.row(f"{name}.linear_fc2", merged, out, bias=True),
    ]


def layer_norm(name: str, size: int) -> list[Module]:
    """A LayerNorm: weight and bias."""
    return [Tensor(f"{name}.weight", (size,)), Tensor(f"{name}.bias", (size,))]
