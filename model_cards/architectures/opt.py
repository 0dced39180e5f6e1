"""OPT: GPT-2's layers; the embedding may be narrower than the network (OPT-350M)."""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder, assemble, tied_embeddings
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Embedding, Module, Tensor
from model_cards.quantization.scheme import QuantScheme

_OFFSET = 2  # positions count from here


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    intermediate = config.integer("ffn_dim")
    bias = config.boolean("enable_bias", True)
    affine = config.boolean("layer_norm_elementwise_affine", True)

    def layer(b: LayerBuilder, index: int) -> Layer:
        names = ("self_attn_layer_norm", "final_layer_norm") if affine else ()
        return Layer(
            (
                *b.attention(out="out_proj", qkv_bias=bias, o_bias=bias),
                *b.plain_mlp(intermediate, "fc1", "fc2", "", bias=bias),
                *(b.layer_norm(name) for name in names),
            ),
            (b.cache(),),
        )

    rows, hidden = config.integer("vocab_size"), config.integer("hidden_size")
    width = config.integer("word_embed_proj_dim", hidden)
    head = Embedding("lm_head", rows, width)  # never quantized
    return Body(
        Embedding("model.decoder.embed_tokens", rows, width),
        assemble(config, scheme, layer, root="model.decoder.layers"),
        _around(config, scheme, width, affine=affine),
        None if tied_embeddings(config, True) else head,
        (),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )


def _around(config: Config, scheme: QuantScheme, width: int, *, affine: bool) -> tuple[Module, ...]:
    """Learned positions, projections to and from a narrower embedding, the final norm.

    All on every stage as the final norm is, so counted with it.
    """
    b = LayerBuilder(config, scheme, "model.decoder")
    positions = config.integer("max_position_embeddings") + _OFFSET
    modules: list[Module] = [Tensor("embed_positions", (positions, b.hidden))]
    if width != b.hidden:
        modules.append(b.replicated("project_in", width, b.hidden))
        modules.append(b.replicated("project_out", b.hidden, width))
    removed = config.boolean("_remove_final_layer_norm", False)
    if affine and config.boolean("do_layer_norm_before", True) and not removed:
        modules.append(b.layer_norm("final_layer_norm"))
    return tuple(modules)
