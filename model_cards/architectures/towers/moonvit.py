"""MoonViT with temporal position embeddings, and the projector that merges its patches (Kimi).

Kimi K3's has RMSNorms, no biases, and attention wider than its hidden state.
"""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder, blocks
from model_cards.architectures.towers.qwen3_vl import layer_norm
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme


def kimi_towers(config: Config, scheme: QuantScheme) -> tuple[Tower, ...]:
    """The tower of a Kimi model, none for a config without one.

    vLLM's classes leave the tower of a compressed-tensors checkpoint unquantized.
    """
    vision = config.section("vision_config")
    if vision is None:
        return ()
    of_tower = NO_QUANTIZATION if scheme.method == "compressed-tensors" else scheme
    return (_vision_tower(vision, of_tower, config.text.integer("hidden_size")),)


def _vision_tower(vision: Config, scheme: QuantScheme, out: int) -> Tower:
    """vLLM's `MoonViT3dPretrainedModel` and `KimiK25MultiModalProjector`; `out` is the width of
    the language model.
    """
    hidden, patch = vision.integer("vt_hidden_size"), vision.integer("patch_size", 14)
    height, width = vision.integer("init_pos_emb_height"), vision.integer("init_pos_emb_width")
    frames = vision.integer("init_pos_emb_time", 4)
    modules: list[Module] = [
        Tensor("patch_embed.proj", (hidden, 3, patch, patch)),
        *(
            [Tensor("patch_embed.proj.bias", (hidden,))]
            if _biased(vision, "patch_embed_proj")
            else ()
        ),
        Tensor("patch_embed.pos_emb", (height, width, hidden)),
        # vLLM's classes cast an unquantized tower, and with it this table of sines.
        Buffer(
            "patch_embed.pos_emb.time_weight", frames * hidden, "float32" if scheme.method else None
        ),
    ]
    config = vision.merged({"hidden_size": hidden})
    modules += blocks(
        scheme,
        "vision_tower.encoder.blocks",
        vision.integer("vt_num_hidden_layers"),
        lambda path: _block(LayerBuilder(config, scheme, path)),
    )
    modules += _norm(vision, "encoder.final_layernorm", hidden)
    return Tower(
        "vision",
        (*modules, *_projector(vision, scheme, hidden, out)),
        heads=vision.integer("vt_num_attention_heads"),
    )


def _block(b: LayerBuilder) -> list[Module]:
    config = b.config
    hidden, heads = b.hidden, config.integer("vt_num_attention_heads")
    inner, attended = (
        config.integer("vt_intermediate_size"),
        config.integer("qkv_hidden_size", hidden),
    )
    qkv = [Output(name, heads, attended // heads) for name in ("q", "k", "v")]
    attn_bias, linear_bias = _biased(config, "attn"), _biased(config, "linear")
    return [
        *_norm(config, "norm0", hidden),
        *_norm(config, "norm1", hidden),
        b.linear("wqkv", hidden, qkv, Shard.COLUMN, bias=attn_bias),
        b.row("wo", attended, hidden, bias=attn_bias),
        b.column("mlp.fc0", hidden, inner, bias=linear_bias),
        b.row("mlp.fc1", inner, hidden, bias=linear_bias),
    ]


def _biased(vision: Config, name: str) -> bool:
    return vision.boolean(f"{name}_bias", True)


def _norm(vision: Config, name: str, size: int) -> list[Module]:
    if vision.string("norm_type", "layernorm") == "rmsnorm":
        return [Tensor(name, (size,))]
    return layer_norm(name, size)


def _projector(vision: Config, scheme: QuantScheme, hidden: int, out: int) -> list[Module]:
    merged = hidden
    for side in vision.integers("merge_kernel_size", minimum=1) or (2, 2):
        merged *= side
    b = LayerBuilder(vision.merged({"hidden_size": hidden}), scheme, "mm_projector")
    normed_last = vision.string("mm_projector_type", "patchmerger") == "patchmergerv2"
    return [
        *([b.norm("post_norm", out)] if normed_last else layer_norm("pre_norm", hidden)),
        b.replicated("linear_1", merged, merged, bias=not normed_last),
        b.replicated("linear_2", merged, out, bias=not normed_last),
    ]
