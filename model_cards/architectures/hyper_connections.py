"""Hyper-connections (mHC): layers read from several residual streams and write to them."""

from __future__ import annotations

from model_cards.config import Config
from model_cards.modules import Tensor


def stream_mixes(config: Config) -> tuple[Tensor, ...]:
    """How attention and MLP read from the residual streams and write to them, in fp32."""
    streams = config.integer("hc_mult")
    mixes, width = (2 + streams) * streams, streams * config.integer("hidden_size")
    shapes = (("fn", (mixes, width)), ("base", (mixes,)), ("scale", (3,)))
    return tuple(
        Tensor(f"hc_{part}_{name}", shape, "float32")
        for part in ("attn", "ffn")
        for name, shape in shapes
    )
