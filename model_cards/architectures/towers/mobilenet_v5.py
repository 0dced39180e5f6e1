"""MobileNet V5 300M, the vision encoder of Gemma 3n (timm's `mobilenetv5_300m_enc`).

A convolutional network whose shape has a name instead of a config. Every convolution is without
bias and followed by an RMSNorm; vLLM takes it as it is, whole on every rank.
"""

from __future__ import annotations

from model_cards.modules import Module, Tensor

NAME = "mobilenetv5_300m_enc"
_STEM, _OUT = 64, 2048


def encoder() -> list[Module]:
    """Stem, four stages that each halve the image, and the fusion of the last two."""
    modules = [*_convolution(3, _STEM, 3), Tensor("stem.bias", (_STEM,))]
    for index in range(3):
        modules += _edge_residual(_STEM if index == 0 else 128, 128)
    modules += _inverted_residual(128, 256, start=3, middle=5, expansion=6)
    for start in (5, 3, 5, 3):
        modules += _inverted_residual(256, 256, start=start, expansion=4)
    modules += _inverted_residual(256, 640, start=5, middle=5, expansion=6)
    for _ in range(7):
        modules += _inverted_residual(640, 640, start=5, expansion=4)
    modules += _inverted_residual(640, 640, expansion=1)
    for _ in range(14):
        modules += _multi_query_attention(640, heads=12, size=64, pooled=True)
        modules += _inverted_residual(640, 640, expansion=2)
    modules += _inverted_residual(640, 1280, start=5, middle=5, expansion=6)
    for _ in range(19):
        modules += _multi_query_attention(1280, heads=16, size=96, pooled=False)
        modules += _inverted_residual(1280, 1280, expansion=2)
    fusion = _inverted_residual(640 + 1280, _OUT, expansion=2, scaled=False)
    return [*modules, *fusion, Tensor("msfa.norm", (_OUT,))]


def _convolution(inputs: int, outputs: int, kernel: int = 1) -> list[Module]:
    """A full convolution and its norm."""
    return [Tensor("conv", (outputs, inputs, kernel, kernel)), Tensor("norm", (outputs,))]


def _depthwise(channels: int, kernel: int) -> list[Module]:
    return _convolution(1, channels, kernel)


def _edge_residual(inputs: int, outputs: int) -> list[Module]:
    """Expansion by a full convolution, then a projection."""
    return [*_convolution(inputs, 4 * inputs, 3), *_convolution(4 * inputs, outputs)]


def _inverted_residual(
    inputs: int,
    outputs: int,
    *,
    expansion: int,
    start: int = 0,
    middle: int = 0,
    scaled: bool = True,
) -> list[Module]:
    """Universal inverted residual: expansion and projection, depthwise convolutions around."""
    wide = expansion * inputs
    return [
        *(_depthwise(inputs, start) if start else []),
        *_convolution(inputs, wide),
        *(_depthwise(wide, middle) if middle else []),
        *_convolution(wide, outputs),
        *([Tensor("layer_scale", (outputs,))] if scaled else []),
    ]


def _multi_query_attention(channels: int, *, heads: int, size: int, pooled: bool) -> list[Module]:
    """Attention with one head of keys and values, which see a `pooled` image."""
    width = heads * size
    return [
        Tensor("norm", (channels,)),
        Tensor("query", (width, channels)),
        *(_depthwise(channels, 3) if pooled else []),
        Tensor("key", (size, channels)),
        *(_depthwise(channels, 3) if pooled else []),
        Tensor("value", (size, channels)),
        Tensor("output", (channels, width)),
        Tensor("layer_scale", (channels,)),
    ]
