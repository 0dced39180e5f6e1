"""Kimi delta attention (KDA): a matrix of state for each head, which decays by features.

Kimi's models and GLM's have it, with projections of their own around the same recurrence.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from model_cards.architectures.decoder import LayerBuilder
from model_cards.caches import RecurrentState, StateKind
from model_cards.config import Config
from model_cards.modules import Module, Output, Shard, Tensor
from model_cards.quantization.formats import FLOAT32


class DeltaAttention(Struct, frozen=True):
    """What a config's `linear_attn_config` says of its KDA layers."""

    heads: int
    head_size: int
    conv_kernel: int
    full_rank_gate: bool
    bounded_gate: bool

    @property
    def features(self) -> int:
        """Of queries, and as many of keys and values."""
        return self.heads * self.head_size

    def state(self, *, exports_states: bool) -> RecurrentState:
        """Convolution state of q, k and v, and one fp32 matrix for every head.

        `exports_states`: vLLM's class has a prefill kernel that can hand out states.
        """
        return RecurrentState(
            StateKind.KDA,
            conv_channels=3 * self.features,
            conv_kernel=self.conv_kernel,
            heads=self.heads,
            head_elements=self.head_size**2,
            key_size=self.head_size,
            dtype="float32",
            exports_states=exports_states,
        )

    def recurrence(self, b: LayerBuilder, name: str = "self_attn") -> list[Module]:
        """Convolution, decay and output norm: what no checkpoint quantizes."""
        conv = b.linear(
            f"{name}.conv1d",
            self.conv_kernel,
            [Output(part, self.features) for part in ("q", "k", "v")],
            Shard.COLUMN,
            quantized=False,
        )
        return [
            replace(conv, format=FLOAT32),
            Tensor(f"{name}.dt_bias", (self.features,), "float32", sharded=True),
            Tensor(f"{name}.A_log", (self.heads,), "float32", sharded=True),
            b.norm(f"{name}.o_norm", self.head_size),
        ]


def delta_attention(text: Config) -> DeltaAttention:
    """The KDA layers of a language model."""
    settings = delta_settings(text)
    return DeltaAttention(
        settings.integer("num_heads"),
        settings.integer("head_dim"),
        settings.integer("short_conv_kernel_size"),
        settings.boolean("use_full_rank_gate", False),
        "gate_lower_bound" in settings,
    )


def delta_settings(text: Config) -> Config:
    """`linear_attn_config`."""
    settings = text.section("linear_attn_config")
    if settings is None:
        raise text.fail("linear_attn_config", "an object")
    return settings
