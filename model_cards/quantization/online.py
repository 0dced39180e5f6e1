"""Online quantization: a 16-bit checkpoint whose weights vLLM quantizes while it loads them.

The names are values of `--quantization` (vLLM's config/quantization.py). Embeddings, output head
and routers stay as they are.
"""

from __future__ import annotations

from typing import Final

from model_cards.errors import UnmodelledQuantization
from model_cards.quantization.formats import UNQUANTIZED, WeightFormat
from model_cards.quantization.fp8 import Fp8, Granularity
from model_cards.quantization.integers import Int8
from model_cards.quantization.mxfp4 import Mxfp4
from model_cards.quantization.mxfp8 import Mxfp8
from model_cards.quantization.nvfp4 import Nvfp4
from model_cards.quantization.scheme import QuantScheme

_PER_TENSOR: Final = Fp8(Granularity.TENSOR)
_PER_BLOCK: Final = Fp8(Granularity.BLOCK, (128, 128))
_PER_CHANNEL: Final = Fp8(Granularity.CHANNEL)

# Format of (linear layers, routed experts).
_FORMATS: Final[dict[str, tuple[WeightFormat, WeightFormat]]] = {
    "fp8": (_PER_TENSOR, _PER_TENSOR),
    "fp8_per_tensor": (_PER_TENSOR, _PER_TENSOR),
    "fp8_per_block": (_PER_BLOCK, _PER_BLOCK),
    "fp8_per_channel": (_PER_CHANNEL, _PER_CHANNEL),
    "mxfp8": (Mxfp8(), Mxfp8()),
    "mxfp4": (Mxfp4(), Mxfp4()),
    "int8_per_channel_weight_only": (UNQUANTIZED, Int8(per_channel=True)),
    "nvfp4_per_token": (UNQUANTIZED, Nvfp4(quantized_input=False)),
}
# Those whose layout after loading equals that of checkpoints in the same format.
VERIFIED: Final = frozenset({"fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel"})


class OnlineScheme(QuantScheme):
    """One format for all linear layers and one for all experts."""

    def __init__(self, method: str) -> None:
        if method not in _FORMATS:
            raise UnmodelledQuantization(f"online quantization {method!r} is not modelled")
        self.method = method
        self.linears, self.routed = _FORMATS[method]

    def path_format(self, path: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.linears

    def experts(self, prefix: str) -> WeightFormat:
        """See `QuantScheme`."""
        return self.routed


def is_online(method: str) -> bool:
    """Whether `--quantization` of that name quantizes 16-bit checkpoints."""
    return method in _FORMATS
