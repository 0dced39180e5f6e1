"""Jamba: Mamba layers with attention in between, every other feed-forward a mixture of experts."""

from __future__ import annotations

from model_cards.architectures.decoder import Body, LayerBuilder, assemble, vocabulary
from model_cards.architectures.mamba import Mamba, time_step_rank
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Module, Tensor
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, intermediate = config.integer("hidden_size"), config.integer("intermediate_size", 14336)
    experts, active = config.integer("num_experts", 16), config.integer("num_experts_per_tok", 2)
    mixer = Mamba(
        config.integer("mamba_expand", 2) * hidden,
        config.integer("mamba_d_state", 16),
        config.integer("mamba_d_conv", 4),
        time_step_rank(config, "mamba_dt_rank"),
        config.boolean("mamba_conv_bias", True),
        config.boolean("mamba_proj_bias", False),
        weighted_norms=True,
    )

    def recurs(kind: str, period: int, offset: int, index: int) -> bool:
        every = config.integer(f"{kind}_layer_period", period)
        return index % every == config.integer(f"{kind}_layer_offset", offset, minimum=0)

    def attends(index: int) -> bool:
        return recurs("attn", 8, 4, index)

    def is_sparse(index: int) -> bool:
        return experts > 1 and recurs("expert", 2, 1, index)

    def feed_forward(b: LayerBuilder, index: int) -> list[Module]:
        if not is_sparse(index):
            return b.gated_mlp(intermediate, "feed_forward")
        return [
            b.router(experts, "feed_forward.router"),
            b.experts(experts, active, intermediate, "feed_forward.experts", trtllm=False),
        ]

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *(b.attention() if attends(index) else mixer.modules(b)),
                *feed_forward(b, index),
                b.norm("input_layernorm"),
                b.norm("pre_ff_layernorm"),
            ),
            (b.cache() if attends(index) else mixer.state(),),
        )

    embedding, head = vocabulary(config, NO_QUANTIZATION, tied=False)
    sparse = any(is_sparse(index) for index in range(config.num_layers))
    return Body(
        embedding,
        assemble(config, scheme, layer, kind=lambda index: (attends(index), is_sparse(index))),
        (Tensor("model.final_layernorm", (hidden,)),),
        head,
        (),
        max_intermediate_size=max(mixer.inner, intermediate * (active if sparse else 1)),
        experts_per_token=active if sparse else 0,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )
