"""Models that vLLM serves with transformers' own classes: GLM 4 (2024), SmolLM 3, Seed OSS.

vLLM's Transformers modeling backend puts its fused and parallel layers in place of theirs. Rotary
embeddings stay transformers': no table, but inverse frequencies in fp32 and a copy of them.
"""

from __future__ import annotations

from collections.abc import Callable

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    layer_windows,
    tied_embeddings,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module, RotaryCache, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """Llama's layers; the families differ in their biases."""
    intermediate = config.integer("intermediate_size")
    qkv_bias = config.boolean("attention_bias", False)
    # SmolLM 3's one key is for the output projection too.
    o_bias = config.boolean("attention_out_bias", qkv_bias and config.model_type == "smollm3")
    mlp_bias = config.boolean("mlp_bias", False)
    # GLM's checkpoints hold gate and up as one matrix.
    gate_up = ("gate_up_proj",) if config.model_type == "glm" else ("gate_proj", "up_proj")

    def modules(b: LayerBuilder) -> tuple[Module, ...]:
        return (
            *b.attention(qkv_bias=qkv_bias, o_bias=o_bias),
            *b.gated_mlp(intermediate, bias=mlp_bias, parts=gate_up),
            b.norm("input_layernorm"),
            b.norm("post_attention_layernorm"),
        )

    final = Tensor("model.norm", (config.integer("hidden_size"),))
    return served_by_transformers(config, scheme, modules, final)


def served_by_transformers(
    config: Config,
    scheme: QuantScheme,
    modules: Callable[[LayerBuilder], tuple[Module, ...]],
    final: Tensor,
    *,
    head_bias: bool = False,
    rotary_tables: int = 1,
) -> Body:
    """A decoder whose layers all hold `modules`."""
    windows = _windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(modules(b), (b.cache(windows[index]),))

    tied = tied_embeddings(config, False)
    embedding, head = vocabulary(config, scheme, tied=tied, head_bias=head_bias)
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: windows[index]),
        (final,),
        head,
        (_inverse_frequencies(config),) * rotary_tables,
        max_intermediate_size=config.integer("intermediate_size"),
    )


def _inverse_frequencies(config: Config) -> RotaryCache:
    """One for every pair of rotated features, kept twice: as computed and as scaled."""
    partial = config.rope_parameters.number(
        "partial_rotary_factor", config.number("partial_rotary_factor", 1.0)
    )
    return RotaryCache(2, int(config.head_size * partial) // 2, "float32")


def _windows(config: Config) -> tuple[int | None, ...]:
    """By `layer_types`, which a class may derive; else one window for the whole model, if any."""
    if "layer_types" in config:
        return layer_windows(config)
    match config.model_type:
        case "olmo3":
            return layer_windows(config, lambda index: (index + 1) % 4 != 0)
        case "smollm3":
            return layer_windows(config, lambda index: _smollm3_slides(config, index))
    window = config.optional_integer("sliding_window", minimum=0) or None
    return (window,) * config.num_layers


def _smollm3_slides(config: Config, index: int) -> bool:
    """Only layers without rotary embedding slide, if `use_sliding_window`."""
    rotated = config.integers("no_rope_layers")  # 1 with, 0 without, whatever the name says
    if rotated and len(rotated) < config.num_layers:
        raise config.fail("no_rope_layers", f"one entry for each of {config.num_layers} layers")
    period = config.integer("no_rope_layer_interval", 4)
    rotates = bool(rotated[index]) if rotated else (index + 1) % period != 0
    return (
        config.boolean("use_sliding_window", False) and "sliding_window" in config and not rotates
    )
