"""The vision transformer of Llama 4: a ViT with a class token, pixel shuffle and a projector."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Module, Output, RotaryCache, Shard, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION


def vision_towers(config: Config) -> tuple[Tower, Tower]:
    """vLLM's `Llama4VisionModel` and the projector behind it, neither ever quantized.

    Defaults are those of transformers' Llama4VisionConfig, which vLLM builds from where a config
    has no `vision_config`.
    """
    vision = config.section("vision_config") or Config({}, f"{config.where}: vision_config")
    hidden = vision.integer("hidden_size", 768)
    heads = vision.integer("num_attention_heads", 16)
    patch, channels = vision.integer("patch_size", 14), vision.integer("num_channels", 3)
    positions = (vision.integer("image_size", 448) // patch) ** 2 + 1  # with the class token
    b = LayerBuilder(vision.merged({"hidden_size": hidden}), NO_QUANTIZATION, "vision_model")
    modules: list[Module] = [
        b.column("patch_embedding.linear", channels * patch**2, hidden),
        Tensor("class_embedding", (hidden,)),
        Tensor("positional_embedding_vlm", (positions, hidden)),
        *layer_norm("layernorm_pre", hidden),
        *layer_norm("layernorm_post", hidden),
    ]
    for index in range(vision.integer("num_hidden_layers", 34)):
        modules += _block(b, f"model.layers.{index}", heads)
    modules += _pixel_shuffle_mlp(b)
    # One complex number of two fp32 for every pair of features.
    rotary = RotaryCache(positions, hidden // heads, "float32")
    projector = b.column(
        "multi_modal_projector.linear_1",
        vision.integer("vision_output_dim", 7680),
        config.text.integer("hidden_size"),
    )
    return (
        Tower("vision", tuple(modules), (rotary,)),
        Tower("projector", (projector,), data_parallel=False),
    )


def _block(b: LayerBuilder, path: str, heads: int) -> list[Module]:
    hidden, inner = b.hidden, b.config.integer("intermediate_size", 5632)
    qkv = [Output(name, heads, hidden // heads) for name in ("q_proj", "k_proj", "v_proj")]
    return [
        *layer_norm(f"{path}.input_layernorm", hidden),
        *layer_norm(f"{path}.post_attention_layernorm", hidden),
        b.linear(f"{path}.self_attn.qkv_proj", hidden, qkv, Shard.COLUMN, bias=True),
        b.row(f"{path}.self_attn.o_proj", hidden, hidden, bias=True),
        b.column(f"{path}.mlp.fc1", hidden, inner, bias=True),
        b.row(f"{path}.mlp.fc2", inner, hidden, bias=True),
    ]


def _pixel_shuffle_mlp(b: LayerBuilder) -> list[Module]:
    """Patches side by side become the features of one, which an MLP narrows."""
    inner = b.config.integer("projector_input_dim", 4096)
    out = b.config.integer("projector_output_dim", 4096)
    bias = b.config.boolean("multi_modal_projector_bias", False)
    shuffled = b.config.integer("intermediate_size", 5632)
    return [
        b.column("vision_adapter.mlp.fc1", shuffled, inner, bias=bias),
        b.row("vision_adapter.mlp.fc2", inner, out, bias=bias),
    ]
