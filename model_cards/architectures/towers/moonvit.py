"""MoonViT with temporal position embeddings, and the projector that merges its patches (Kimi)."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import QuantScheme


def vision_tower(vision: Config, scheme: QuantScheme, out: int) -> Tower:
    """vLLM's `MoonViT3dPretrainedModel` and `KimiK25MultiModalProjector`; `out` is the width of
    the language model.
    """
    hidden, patch = vision.integer("vt_hidden_size"), vision.integer("patch_size", 14)
    height, width = vision.integer("init_pos_emb_height"), vision.integer("init_pos_emb_width")
    frames = vision.integer("init_pos_emb_time", 4)
    modules: list[Module] = [
        Tensor("patch_embed.proj", (hidden, 3, patch, patch)),
        Tensor("patch_embed.proj.bias", (hidden,)),
        Tensor("patch_embed.pos_emb", (height, width, hidden)),
        Buffer("patch_embed.pos_emb.time_weight", frames * hidden),
    ]
    for index in range(vision.integer("vt_num_hidden_layers")):
        b = LayerBuilder(
            vision.merged({"hidden_size": hidden}), scheme, f"vision_tower.encoder.blocks.{index}"
        )
        modules += _block(b)
    modules += layer_norm("encoder.final_layernorm", hidden)
    return Tower("vision", (*modules, *_projector(vision, scheme, hidden, out)))


def _block(b: LayerBuilder) -> list[Module]:
    hidden, heads = b.hidden, b.config.integer("vt_num_attention_heads")
    inner = b.config.integer("vt_intermediate_size")
    qkv = [Output(name, heads, hidden // heads) for name in ("q", "k", "v")]
    return [
        *layer_norm("norm0", hidden),
        *layer_norm("norm1", hidden),
        b.linear("wqkv", hidden, qkv, Shard.COLUMN, bias=True),
        b.row("wo", hidden, hidden, bias=True),
        b.column("mlp.fc0", hidden, inner, bias=True),
        b.row("mlp.fc1", inner, hidden, bias=True),
    ]


def _projector(vision: Config, scheme: QuantScheme, hidden: int, out: int) -> list[Module]:
    merged = hidden
    for side in vision.integers("merge_kernel_size", minimum=1) or (2, 2):
        merged *= side
    b = LayerBuilder(vision.merged({"hidden_size": hidden}), scheme, "mm_projector")
    return [
        *layer_norm("pre_norm", hidden),
        b.replicated("linear_1", merged, merged, bias=True),
        b.replicated("linear_2", merged, out, bias=True),
    ]
