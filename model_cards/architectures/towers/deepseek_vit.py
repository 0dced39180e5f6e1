"""DeepSeek's vision transformer, with the aligner that merges its patches."""

from __future__ import annotations

from typing import Final

from model_cards.architectures.decoder import LayerBuilder
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard
from model_cards.quantization.scheme import NO_QUANTIZATION

_COLORS: Final = 3


def vision_tower(vision: Config, out: int) -> Tower:
    """vLLM's `DeepseekV4ViT` and `DeepseekV4Aligner`, never quantized."""
    hidden, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    top = LayerBuilder(vision, NO_QUANTIZATION, "vision")
    modules: list[Module] = [
        top.replicated("patch_embed.proj", _COLORS * patch**2, hidden, bias=True)
    ]
    for index in range(vision.num_layers):
        modules += _block(LayerBuilder(vision, NO_QUANTIZATION, f"vision.blocks.{index}"))
    merged = hidden * vision.integer("downsample_ratio", 3) ** 2
    modules += [
        top.norm("norm"),
        top.column("aligner.w1", merged, out, bias=True),
        top.row("aligner.w2", out, out, bias=True),
    ]
    return Tower("vision", tuple(modules))


def _block(b: LayerBuilder) -> list[Module]:
    heads = b.config.integer("num_attention_heads")
    qkv = [Output(name, heads, b.hidden // heads) for name in ("q", "k", "v")]
    inner = b.config.integer("intermediate_size")
    gate_up = [Output("gate", inner), Output("up", inner)]
    return [
        b.norm("norm1"),
        b.linear("attn.wqkv", b.hidden, qkv, Shard.COLUMN, bias=True),
        b.row("attn.wo", b.hidden, b.hidden, bias=True),
        b.norm("norm2"),
        b.linear("mlp.w1", b.hidden, gate_up, Shard.COLUMN),
        b.row("mlp.w2", inner, b.hidden),
    ]
