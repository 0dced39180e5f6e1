"""The vision encoder of Gemma 4, which vLLM runs from transformers: whole on every rank."""

from __future__ import annotations

from model_cards.architectures.decoder import LayerBuilder
from model_cards.card import Tower
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme

_KERNEL_TILE = 64  # most quantized kernels need dimensions of whole tiles; vLLM skips others
_ANY_SIZE = frozenset({"compressed-tensors", "bitsandbytes", "torchao"})


def vision_tower(vision: Config, scheme: QuantScheme, out: int) -> Tower:
    """Patch embedder, encoder layers and the projection to the language model's width `out`."""
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    if scheme.method not in _ANY_SIZE and (hidden % _KERNEL_TILE or inner % _KERNEL_TILE):
        scheme = NO_QUANTIZATION
    patch = vision.integer("patch_size", 16)
    b = LayerBuilder(vision, scheme, "model.vision_tower.patch_embedder")
    modules: list[Module] = [
        b.replicated("input_proj", 3 * patch * patch, hidden),
        Tensor("position_embedding_table", (2, vision.integer("position_embedding_size"), hidden)),
    ]
    for index in range(vision.num_layers):
        path = f"model.vision_tower.encoder.layers.{index}"
        modules += _layer(LayerBuilder(vision, scheme, path))
    # Inverse frequencies of one axis, and a second copy of them.
    modules.append(Buffer("rotary.inv_freq", 2 * (vision.head_size // 4), "float32"))
    if vision.boolean("standardize", False):
        modules += [Tensor("std_bias", (hidden,)), Tensor("std_scale", (hidden,))]
    project = LayerBuilder(vision, scheme, "model.embed_vision")
    modules += [
        project.replicated("embedding_projection", hidden, out),
        Buffer("embedding_pre_projection_norm", hidden),
    ]
    return Tower("vision", tuple(modules))


def _layer(b: LayerBuilder) -> list[Module]:
    hidden, inner, size = b.hidden, b.config.integer("intermediate_size"), b.config.head_size
    heads, kv_heads = b.config.integer("num_attention_heads"), b.config.num_kv_heads
    shapes = {
        "self_attn.q_proj": (hidden, heads * size),
        "self_attn.k_proj": (hidden, kv_heads * size),
        "self_attn.v_proj": (hidden, kv_heads * size),
        "self_attn.o_proj": (heads * size, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    modules: list[Module] = [b.replicated(name, *shape) for name, shape in shapes.items()]
    if b.config.boolean("use_clipped_linears", False):
        modules += [Tensor(f"{name}.clip_bounds", (4,)) for name in shapes]
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules += [b.norm(f"{name}_layernorm") for name in norms]
    return [*modules, b.norm("self_attn.q_norm", size), b.norm("self_attn.k_norm", size)]
