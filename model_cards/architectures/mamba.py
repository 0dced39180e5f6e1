"""Mamba, Falcon Mamba and Mamba-2: recurrent layers only. Hybrid families take the mixers."""

from __future__ import annotations

from msgspec import Struct

from model_cards.architectures.decoder import (
    Body,
    LayerBuilder,
    assemble,
    tied_embeddings,
    vocabulary,
)
from model_cards.caches import RecurrentState, StateKind
from model_cards.card import Layer
from model_cards.config import Config
from model_cards.modules import Buffer, Module, Output, Shard, Tensor
from model_cards.quantization.formats import ceil_div
from model_cards.quantization.scheme import NO_QUANTIZATION, QuantScheme


class Mamba(Struct, frozen=True):
    """A Mamba-1 mixer, which vLLM never quantizes: `inner` channels of `state_size` states."""

    inner: int
    state_size: int
    kernel: int
    rank: int  # of the time step's projection
    conv_bias: bool
    bias: bool
    # Norms of the time step, B and C, with weights or without; None for no norms.
    weighted_norms: bool | None

    def modules(self, b: LayerBuilder, name: str = "mixer") -> list[Module]:
        """vLLM's `MambaMixer`."""
        inner, states, column = self.inner, self.state_size, Shard.COLUMN
        x, out = Output("x_proj", self.rank + 2 * states), Output("out_proj", b.hidden)
        halves = [Output("x", inner), Output("z", inner)]

        def linear(
            part: str, inputs: int, outputs: list[Output], shard: Shard, *, bias: bool = False
        ) -> Module:
            return b.linear(f"{name}.{part}", inputs, outputs, shard, bias=bias, quantized=False)

        return [
            linear("conv1d", self.kernel, [Output("conv1d", inner)], column, bias=self.conv_bias),
            linear("in_proj", b.hidden, halves, column, bias=self.bias),
            linear("x_proj", inner, [x], Shard.ROW),
            linear("dt_proj", self.rank, [Output("dt_proj", inner)], column, bias=True),
            linear("out_proj", inner, [out], Shard.ROW, bias=self.bias),
            Tensor(f"{name}.A_log", (inner, states), "float32", sharded=True),
            Tensor(f"{name}.D", (inner,), sharded=True),
            *self._norms(name),
        ]

    def _norms(self, name: str) -> list[Module]:
        if self.weighted_norms is None:
            return []
        sizes = {"dt": self.rank, "b": self.state_size, "c": self.state_size}
        if self.weighted_norms:
            return [Tensor(f"{name}.{part}_layernorm", (size,)) for part, size in sizes.items()]
        # vLLM holds ones in place of the weights that the checkpoint does not have.
        return [Buffer(f"{name}.{part}_layernorm", size) for part, size in sizes.items()]

    def state(self) -> RecurrentState:
        """What it keeps of a request."""
        return RecurrentState(
            StateKind.MAMBA1,
            conv_channels=self.inner,
            conv_kernel=self.kernel,
            heads=self.inner,
            head_elements=self.state_size,
        )


class Mamba2(Struct, frozen=True):
    """A Mamba-2 mixer: heads that share B and C in groups."""

    heads: int
    head_size: int
    state_size: int
    groups: int
    kernel: int
    conv_bias: bool
    bias: bool

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_size

    def modules(self, b: LayerBuilder, name: str = "mixer") -> list[Module]:
        """vLLM's `MambaMixer2`; a single group is held whole by every rank."""
        x = Output("x", self.heads, self.head_size)
        b_and_c = [
            Output(part, self.groups, self.state_size, replicable=self.groups == 1)
            for part in ("B", "C")
        ]
        gate, dt = Output("gate", self.heads, self.head_size), Output("dt", self.heads)
        return [
            b.linear(
                f"{name}.conv1d",
                self.kernel,
                [x, *b_and_c],
                Shard.COLUMN,
                bias=self.conv_bias,
                quantized=False,
            ),
            b.linear(
                f"{name}.in_proj", b.hidden, [gate, x, *b_and_c, dt], Shard.COLUMN, bias=self.bias
            ),
            Tensor(f"{name}.A_log", (self.heads,), "float32", sharded=True),
            Tensor(f"{name}.D", (self.heads,), sharded=True),
            Tensor(f"{name}.dt_bias", (self.heads,), sharded=True),
            Tensor(f"{name}.norm", (self.inner,), sharded=True),
            b.row(f"{name}.out_proj", self.inner, b.hidden, bias=self.bias),
        ]

    def state(self, dtype: str | None = None) -> RecurrentState:
        """What it keeps of a request: the temporal state in `dtype`, if that is not the model's."""
        return RecurrentState(
            StateKind.MAMBA2,
            conv_channels=self.inner,
            conv_kernel=self.kernel,
            heads=self.heads,
            head_elements=self.head_size * self.state_size,
            groups=self.groups,
            group_channels=2 * self.state_size,
            dtype=dtype,
        )


def build(config: Config, scheme: QuantScheme) -> Body:
    """See `model_cards.architectures`."""
    hidden, second = config.integer("hidden_size"), config.model_type == "mamba2"
    mixer: Mamba | Mamba2 = _mamba2(config) if second else _mamba(config)

    def layer(b: LayerBuilder, index: int) -> Layer:
        return Layer((*mixer.modules(b), b.norm("norm")), (mixer.state(),))

    tied = tied_embeddings(config, not second)
    embedding, head = vocabulary(config, NO_QUANTIZATION, tied=tied)
    return Body(
        embedding,
        assemble(config, scheme, layer, root="backbone.layers"),
        (Tensor("backbone.norm_f", (hidden,)),),
        head,
        (),
        max_intermediate_size=mixer.inner,
        embedding_on_every_stage=True,
        output_on_every_stage=True,
    )


def _mamba(config: Config) -> Mamba:
    return Mamba(
        config.integer("expand", 2) * config.integer("hidden_size"),
        config.integer("state_size", 16),
        config.integer("conv_kernel", 4),
        time_step_rank(config, "time_step_rank"),
        config.boolean("use_conv_bias", True),
        config.boolean("use_bias", False),
        weighted_norms=False if config.model_type == "falcon_mamba" else None,
    )


def _mamba2(config: Config) -> Mamba2:
    return Mamba2(
        config.integer("num_heads", 128),
        config.integer("head_dim", 64),
        config.integer("state_size", 128),
        config.integer("n_groups", 8),
        config.integer("conv_kernel", 4),
        config.boolean("use_conv_bias", True),
        config.boolean("use_bias", False),
    )


def time_step_rank(config: Config, key: str) -> int:
    """Rank of the time step's projection; `auto` is a sixteenth of the hidden size."""
    if config.raw(key) in (None, "auto"):
        return ceil_div(config.integer("hidden_size"), 16)
    return config.integer(key)
