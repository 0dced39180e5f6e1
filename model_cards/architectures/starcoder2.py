"""StarCoder 2, Phi 1 and 2: LayerNorms, an MLP without a gate, biases everywhere."""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder
from model_cards.architectures.transformers_backend import served_by_transformers
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden = config.integer("hidden_size")
    if config.model_type == "phi":
        final = Tensor("model.final_layernorm", (2, hidden))
        return served_by_transformers(config, scheme, _phi_layer, final, head_bias=True)
    return served_by_transformers(
        config, scheme, _starcoder_layer, Tensor("model.norm", (2, hidden))
    )


def _starcoder_layer(b: LayerBuilder) -> tuple[Module, ...]:
    bias = b.config.boolean("use_bias", True)
    return (
        *b.attention(qkv_bias=bias, o_bias=bias),
        *b.plain_mlp(b.config.integer("intermediate_size"), "c_fc", "c_proj", bias=bias),
        b.layer_norm("input_layernorm"),
        b.layer_norm("post_attention_layernorm"),
    )


def _phi_layer(b: LayerBuilder) -> tuple[Module, ...]:
    """Attention and MLP side by side behind one norm."""
    size = b.config.head_size
    norms = [b.layer_norm("input_layernorm")]
    if b.config.boolean("qk_layernorm", False):
        norms += [b.layer_norm(f"self_attn.{name}_layernorm", size) for name in ("q", "k")]
    return (
        *b.attention(qkv_bias=True, o_bias=True, out="dense"),
        *b.plain_mlp(b.config.integer("intermediate_size"), "fc1", "fc2", bias=True),
        *norms,
    )
