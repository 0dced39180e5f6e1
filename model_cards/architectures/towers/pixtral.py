"""Pixtral's vision transformer: RMSNorms, gated MLPs, two-dimensional RoPE (Mistral)."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme


def pixtral(vision: Config, scheme: QuantScheme, root: str, *, layers: int) -> list[Module]:
    """vLLM's `PixtralHFVisionModel`: as many of its layers as the language model looks at."""
    hidden, patch = vision.integer("hidden_size", 1024), vision.integer("patch_size", 16)
    heads = vision.integer("num_attention_heads", 16)
    modules: list[Module] = [
        Tensor("patch_conv", (hidden, vision.integer("num_channels", 3), patch, patch)),
        Tensor("ln_pre", (hidden,)),
        Buffer("inv_freq", hidden // heads // 2, "float32"),
        Buffer("original_inv_freq", hidden // heads // 2, "float32"),
    ]
    config = vision.merged({"hidden_size": hidden})
    modules += blocks(
        scheme,
        f"{root}.transformer.layers",
        layers,
        lambda path: _block(LayerBuilder(config, scheme, path), heads),
    )
    return modules


def _block(b: LayerBuilder, heads: int) -> list[Module]:
    qkv = [Output(name, heads, b.hidden // heads) for name in ("q_proj", "k_proj", "v_proj")]
    parts = [output.name for output in qkv]
    return [
        b.norm("attention_norm"),
        b.linear("attention.qkv_proj", b.hidden, qkv, Shard.COLUMN, parts=parts),
        b.row("attention.o_proj", b.hidden, b.hidden),
        b.norm("ffn_norm"),
        *b.gated_mlp(b.config.integer("intermediate_size", 4096), "feed_forward"),
    ]
