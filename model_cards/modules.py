"""What a checkpoint is made of, in the classes vLLM's layers have.

Sizes are logical (the whole network, before any parallelism). How a module is split over tensor-
parallel ranks is part of the checkpoint's structure and said here; splitting it is the planner's.
A dtype of None is the dtype the model runs in (`--dtype`, else the checkpoint's).
"""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import Final

from msgspec import Struct

from model_cards.quantization.formats import UNQUANTIZED, WeightFormat
from model_cards.quantization.mxfp8 import Mxfp8


class Shard(Enum):
    """How tensor parallelism splits a linear layer."""

    COLUMN = "column"  # each rank has a part of the outputs
    ROW = "row"  # each rank has a part of the inputs
    REPLICATED = "replicated"


class Output(Struct, frozen=True):
    """One logical output of a linear layer: `units` x `width` features.

    Tensor parallelism divides whole units (attention heads). `replicable` units (KV heads) are
    held by several ranks when there are fewer of them than ranks. One that is not `stored` is
    filled from another output.
    """

    name: str
    units: int
    width: int = 1
    replicable: bool = False
    stored: bool = True

    @property
    def size(self) -> int:
        """Output features."""
        return self.units * self.width


class Linear(Struct, frozen=True):
    """A linear layer, fused as vLLM fuses it (`qkv_proj`, `gate_up_proj`).

    `fused`: the checkpoint, and with it every adapter, has one matrix for all outputs too. With
    a `block` ranks get whole blocks of so many features, the last ones filled up with zeros. A
    rank's outputs together are filled up to a multiple of `row_alignment`. `batched`: each group
    of outputs has inputs of its own. `sequence_parallel`: whole on every rank where MoE layers
    split a batch's tokens among the tensor-parallel ranks.
    """

    name: str
    inputs: int
    outputs: tuple[Output, ...]
    shard: Shard
    bias: bool
    format: WeightFormat
    fused: bool = False
    block: int | None = None
    row_alignment: int = 1
    batched: bool = False
    sequence_parallel: bool = False

    @property
    def elements(self) -> int:
        """Logical parameters, quantization scales not counted."""
        out = sum(output.size for output in self.outputs if output.stored)
        return out * self.inputs + (out if self.bias else 0)


class Experts(Struct, frozen=True):
    """The routed experts of one MoE layer.

    `gated` experts have gate, up and down projections; others up and down only. `trtllm`: their
    activation and routing are among those that TRT-LLM's 16-bit kernel knows (SiLU or squared
    ReLU; renormalized or sigmoid scores). `activation_parameters` are a limit, a slope and an
    offset of the activation, as far as it has them; `scaled_parameters` of them are in units of the
    product of matrices. Where ranks slice the experts, every slice is padded to `smallest_slice`.
    """

    name: str
    count: int
    active: int  # experts a token visits
    hidden: int
    intermediate: int
    gated: bool
    bias: bool
    format: WeightFormat
    trtllm: bool = True
    activation_parameters: int = 0
    scaled_parameters: int = 0
    smallest_slice: int = 1

    @property
    def up_outputs(self) -> tuple[int, ...]:
        """Output features of the projections into the expert: (gate, up) or (up,)."""
        return (self.intermediate,) * (2 if self.gated else 1)

    @property
    def elements(self) -> int:
        """Logical parameters of all experts."""
        matrices = len(self.up_outputs) + 1
        biases = (sum(self.up_outputs) + self.hidden) if self.bias else 0
        return self.count * (matrices * self.hidden * self.intermediate + biases)


class Tensor(Struct, frozen=True):
    """A plain parameter (norm, gate bias, sink).

    `sharded` ones are split on dimension 0, whose entries are replicated where ranks outnumber
    them (KV heads). `padded`: one entry a query head, filled up to the heads that the attention
    kernel takes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str | None = None
    sharded: bool = False
    padded: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


class Embedding(Struct, frozen=True):
    """A vocabulary-parallel matrix: the token embedding or the output head.

    `replicated`: vLLM's class does not split it over ranks.
    """

    name: str
    rows: int
    width: int
    bias: bool = False
    format: WeightFormat = UNQUANTIZED
    replicated: bool = False

    @property
    def elements(self) -> int:
        """Logical parameters."""
        return self.rows * self.width + (self.rows if self.bias else 0)


NO_HEAD: Final = Embedding("lm_head", 0, 0)  # of a network that gives hidden states only


AS_LONG_AS_PROMPTS: Final = 0  # rows of a table that has `max_model_len` of them


class RotaryCache(Struct, frozen=True):
    """A precomputed cos/sin table: a buffer of every pipeline stage, not in the checkpoint.

    `eager_dtype` is its dtype where vLLM does not compile the model. A draft uses the target's
    table if `rope`, what the angles follow from, is the same too.
    """

    rows: int
    width: int
    dtype: str | None = None
    eager_dtype: str | None = None
    rope: tuple[str | float, ...] = ()


class HostTable(Struct, frozen=True):
    """A lookup table that vLLM keeps in host memory, in MXFP8.

    Every token looks `lookups` rows up; the device has room for those of a batch.
    """

    name: str
    rows: int
    width: int
    lookups: int

    @property
    def elements(self) -> int:
        """Logical parameters."""
        return self.rows * self.width

    @property
    def bytes(self) -> int:
        """Bytes of the whole table."""
        return sum(tensor.bytes for tensor in Mxfp8().tensors(self.width, (self.rows,), 2))


class Bulk(Struct, frozen=True):
    """Weights known only by their total (an architecture that is not modelled).

    Assumed to divide evenly over ranks; `active` of its `elements` take part in one token.
    """

    name: str
    elements: int
    bytes: int
    active: int
    kind: str = "16bit"  # weight format, as `WeightFormat.kind` names it


class Buffer(Struct, frozen=True):
    """A tensor that vLLM's class adds and no checkpoint has (scales, masks, absorbed matrices).

    `fused_decode`: only where a fused kernel runs the decode steps of a recurrent layer.
    """

    name: str
    size: int  # elements, on all ranks together where `sharded`
    dtype: str | None = None
    sharded: bool = False
    fused_decode: bool = False

    @property
    def elements(self) -> int:
        """Logical parameters: none."""
        return 0


Module = Linear | Experts | Tensor | Embedding | HostTable | Bulk | Buffer
