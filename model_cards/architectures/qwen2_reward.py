"""Qwen 2 reward models: a head of two layers that scores a whole text, or each of its steps."""

from __future__ import annotations

from msgspec.structs import replace

from model_cards.architectures import qwen2
from model_cards.architectures.decoder import Body
from model_cards.config import Config
from model_cards.modules import NO_HEAD, Shard
from model_cards.pooling import PoolingClass, fp32_linear
from model_cards.quantization.scheme import QuantScheme


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden = config.integer("hidden_size")
    steps = config.architectures[0] == "Qwen2ForProcessRewardModel"
    return replace(
        qwen2.build(config, scheme),
        lm_head=NO_HEAD,
        beside=(
            fp32_linear("score.0", hidden, hidden, Shard.COLUMN),
            fp32_linear("score.2", hidden, 2 if steps else 1, Shard.ROW),
        ),
        pooling=PoolingClass(native=True, method="STEP" if steps else "LAST"),
    )
