"""InternLM 2 and 2.5: Llama's layers, with q, k and v fused in the checkpoint."""

from __future__ import annotations

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    rotary_cache,
    tied_embeddings,
    vocabulary,
)
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import NO_HEAD, Module, Shard, Tensor
from model_cards.pooling import PoolingClass, fp32_linear
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    intermediate = config.integer("intermediate_size")

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer(
            (
                *b.attention("attention", qkv="wqkv", out="wo", parts=("wqkv",)),
                *b.gated_mlp(intermediate, "feed_forward", parts=("w1", "w3"), down="w2"),
                b.norm("attention_norm"),
                b.norm("ffn_norm"),
            ),
            (b.cache(),),
        )

    tied = tied_embeddings(config, False)
    embedding, head = vocabulary(config, scheme, tied=tied, head="output")
    scores: tuple[Module, ...] = ()
    rewards = config.architectures[0] == "InternLM2ForRewardModel"
    if rewards:
        head = NO_HEAD
        scores = (fp32_linear("v_head", config.integer("hidden_size"), 1, Shard.ROW, bias=False),)
    return Body(
        embedding,
        assemble(config, scheme, layer),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=intermediate,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
        beside=scores,
        pooling=PoolingClass(native=rewards),
    )
