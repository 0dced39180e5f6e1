"""How one weight matrix is stored: what a quantization format keeps of it, in bytes.

A format answers for any matrix, whole or already split over ranks: `inputs` are the columns a
rank holds, `outputs` the rows of each projection fused into it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


class Stored(NamedTuple):
    """One stored tensor of a matrix."""

    name: str
    elements: int
    bytes: int


class WeightFormat(Struct, frozen=True):
    """A way to store a weight matrix."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name for people, as in `fp8 block 128x128`."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """What the format is called whoever made it: `16bit`, `fp8`, `int4`, `nvfp4`, ..."""

    @property
    @abstractmethod
    def weight_bits(self) -> int:
        """Bits of one weight, scales not counted."""

    @abstractmethod
    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """The tensors stored for a matrix; `dtype_bytes` is the size of the model's dtype."""

    def bytes(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> int:
        """Bytes of all of `tensors`."""
        return sum(stored.bytes for stored in self.tensors(inputs, outputs, dtype_bytes))


class Unquantized(WeightFormat, frozen=True):
    """The model's own dtype, or the one of `element_bytes` that vLLM's class insists on."""

    element_bytes: int | None = None

    @property
    def label(self) -> str:
        """See `WeightFormat`."""
        return "unquantized"

    @property
    def kind(self) -> str:
        """See `WeightFormat`."""
        return "16bit"

    @property
    def weight_bits(self) -> int:
        """See `WeightFormat`."""
        return 8 * (self.element_bytes or 2)

    def tensors(self, inputs: int, outputs: Sequence[int], dtype_bytes: int) -> tuple[Stored, ...]:
        """See `WeightFormat`."""
        elements = inputs * sum(outputs)
        return (Stored("weight", elements, elements * (self.element_bytes or dtype_bytes)),)


class Float32WithoutKernel(Unquantized, frozen=True):
    """A router that computes in fp32: stored so too where no kernel does that from 16 bits."""


UNQUANTIZED = Unquantized()
FLOAT32 = Unquantized(4)
FLOAT32_WITHOUT_KERNEL = Float32WithoutKernel()
