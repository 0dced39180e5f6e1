"""DFlash drafts: Qwen 3 layers that write a whole block of tokens at once."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    layer_windows,
    rotary_cache,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, Embedding, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    bias = config.boolean("attention_bias", False)
    windows = _windows(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention(qkv_bias=bias, o_bias=bias, qk_norm=True),
                *b.gated_mlp(config.integer("intermediate_size")),
                b.norm("input_layernorm"),
                b.norm("post_attention_layernorm"),
            ),
            (b.cache(windows[index]),),
        )

    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    own_rows = config.integer("draft_vocab_size", rows)
    top = LayerBuilder(config, scheme, "model")
    inputs = config.integer("target_hidden_size", hidden) * _hidden_states(config)
    return Body(
        Embedding("embed_tokens", rows, hidden),
        assemble(config, scheme, layer, kind=lambda index: windows[index]),
        (Tensor("norm", (hidden,)),),
        Embedding("lm_head", own_rows, hidden),
        (rotary_cache(config),),
        max_intermediate_size=config.integer("intermediate_size"),
        beside=(
            top.replicated("fc", inputs, hidden),
            top.norm("hidden_norm"),
            Buffer("mask_embedding", hidden),
        ),
    )


def _settings(config: Config) -> Config:
    return config.section("dflash_config") or Config({}, f"{config.where}: dflash_config")


def _hidden_states(config: Config) -> int:
    listed = _settings(config).integers("target_layer_ids")
    listed = listed or config.integers("aux_hidden_state_layer_ids")
    listed = listed or config.integers("target_layer_ids")
    return len(listed) or config.num_layers


def _windows(config: Config) -> tuple[int | None, ...]:
    settings = _settings(config)
    own = layer_windows(config)
    if settings.boolean("use_swa", False) and not any(own):
        window = settings.integer("swa_window_size", config.integer("sliding_window", 4096))
        return (window,) * config.num_layers
    return own
