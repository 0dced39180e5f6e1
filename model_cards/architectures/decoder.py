"""The parts that decoder families have in common, and how they are put together.

A family's module says what one layer holds in terms of `LayerBuilder`; `assemble` repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from model_cards.caches import Attention, AttentionKind
from model_cards.card import Draft, Layer, Tower
from model_cards.config import Config
from model_cards.errors import BadConfig
from model_cards.modules import (
    Buffer,
    Embedding,
    Experts,
    Linear,
    Module,
    Output,
    RotaryCache,
    Shard,
    Tensor,
)
from model_cards.pooling import GENERATES, PoolingClass
from model_cards.quantization.formats import FLOAT32, UNQUANTIZED, WeightFormat
from model_cards.quantization.scheme import QuantScheme

_DEFAULT_THETA = 10000.0
# Four fp32 scalars (scales of q, k, v and the probabilities) of every attention layer.
ATTENTION_SCALES = Buffer("attn.scales", 4, "float32")


class Body(Struct, frozen=True):
    """The network of a checkpoint: what a family's module builds from a config."""

    embedding: Embedding
    layers: tuple[Layer, ...]
    final: tuple[Module, ...]
    lm_head: Embedding | None
    rotary: tuple[RotaryCache, ...]
    max_intermediate_size: int
    experts_per_token: int = 0
    embedding_on_every_stage: bool = False
    output_on_every_stage: bool = False
    beside: tuple[Module, ...] = ()
    batch_elements: int = 0
    residual_streams: int = 1
    towers: tuple[Tower, ...] = ()
    multimodal_prefix: bool = False
    largest_item_tokens: int = 0
    deepstack_levels: int = 0
    residual_block: int = 0
    drafts: tuple[Draft, ...] = ()
    unreadable: str | None = None
    stage_starts: frozenset[int] | None = None
    passed_bytes: int = 0
    embedding_for_drafts: bool = True
    pooling: PoolingClass = GENERATES
    notes: tuple[str, ...] = ()


class LayerBuilder:
    """Builds the modules of one layer, asking the quantization scheme how each is stored."""

    def __init__(self, config: Config, scheme: QuantScheme, path: str) -> None:
        self.config = config
        self.scheme = scheme
        self.path = path  # "model.layers.7"
        self.hidden = config.integer("hidden_size")

    def linear(
        self,
        name: str,
        inputs: int,
        outputs: Sequence[Output],
        shard: Shard,
        *,
        bias: bool = False,
        parts: Sequence[str] = (),
        quantized: bool = True,
    ) -> Linear:
        """A linear layer; `parts` are the checkpoint's names of what vLLM fuses into it.

        Not `quantized`: vLLM's class leaves it in the model's dtype whatever the checkpoint says.
        """
        weight_format: WeightFormat = UNQUANTIZED
        if quantized:
            weight_format = self.scheme.linear(f"{self.path}.{name}", parts)
        fused = len(parts) == 1 < len(outputs)
        return Linear(name, inputs, tuple(outputs), shard, bias, weight_format, fused)

    def column(self, name: str, inputs: int, outputs: int, *, bias: bool = False) -> Linear:
        """A column-parallel layer with one output."""
        return self.linear(name, inputs, [Output(name, outputs)], Shard.COLUMN, bias=bias)

    def row(self, name: str, inputs: int, outputs: int, *, bias: bool = False) -> Linear:
        """A row-parallel layer."""
        return self.linear(name, inputs, [Output(name, outputs)], Shard.ROW, bias=bias)

    def replicated(
        self, name: str, inputs: int, outputs: int, *, bias: bool = False, quantized: bool = True
    ) -> Linear:
        """A layer that every rank holds whole."""
        return self.linear(
            name,
            inputs,
            [Output(name, outputs)],
            Shard.REPLICATED,
            bias=bias,
            quantized=quantized,
        )

    def router(self, experts: int, name: str = "mlp.gate", *, fp32: bool = False) -> Linear:
        """The router of an MoE layer, never quantized (vLLM's `GateLinear`)."""
        router = self.replicated(name, self.hidden, experts, quantized=False)
        return replace(router, format=FLOAT32) if fp32 else router

    def norm(self, name: str, size: int | None = None) -> Tensor:
        """An RMSNorm (or a LayerNorm without bias) of the hidden size, or of `size`."""
        return Tensor(name, (size or self.hidden,))

    def layer_norm(self, name: str, size: int | None = None) -> Tensor:
        """A LayerNorm: weight and bias."""
        return Tensor(name, (2, size or self.hidden))

    def attention(
        self,
        name: str = "self_attn",
        *,
        qkv_bias: bool = False,
        o_bias: bool = False,
        qk_norm: bool = False,
        output_gate: bool = False,
        parts: Sequence[str] = ("q_proj", "k_proj", "v_proj"),
        qkv: str = "qkv_proj",
        out: str = "o_proj",
        kv_heads: int | None = None,
    ) -> list[Module]:
        """Grouped-query attention: fused qkv, output projection, norms of q and k heads.

        With an `output_gate` the q projection also gives a gate for every feature of the output.
        `kv_heads` are the config's unless a layer has its own.
        """
        heads, kv_heads, size = (
            self.config.integer("num_attention_heads"),
            kv_heads or self.config.num_kv_heads,
            self.config.head_size,
        )
        if heads % kv_heads:
            raise self.config.fail("num_key_value_heads", f"a divisor of {heads}, the heads")
        modules: list[Module] = [
            self.linear(
                f"{name}.{qkv}",
                self.hidden,
                (
                    Output("q_proj", heads, 2 * size if output_gate else size),
                    Output("k_proj", kv_heads, size, replicable=True),
                    Output("v_proj", kv_heads, size, replicable=True),
                ),
                Shard.COLUMN,
                bias=qkv_bias,
                parts=parts,
            ),
            self.row(f"{name}.{out}", heads * size, self.hidden, bias=o_bias),
            ATTENTION_SCALES,
        ]
        if qk_norm:
            modules += [self.norm(f"{name}.q_norm", size), self.norm(f"{name}.k_norm", size)]
        return modules

    def gated_mlp(
        self,
        intermediate: int,
        name: str = "mlp",
        *,
        bias: bool = False,
        parts: Sequence[str] = ("gate_proj", "up_proj"),
        down: str = "down_proj",
    ) -> list[Module]:
        """Gate and up projections fused, then down (SwiGLU, GeGLU)."""
        return [
            self.linear(
                f"{name}.gate_up_proj",
                self.hidden,
                (Output("gate_proj", intermediate), Output("up_proj", intermediate)),
                Shard.COLUMN,
                bias=bias,
                parts=parts,
            ),
            self.row(f"{name}.{down}", intermediate, self.hidden, bias=bias),
        ]

    def plain_mlp(
        self, intermediate: int, up: str, down: str, name: str = "mlp", *, bias: bool
    ) -> list[Module]:
        """Up and down projections without a gate."""
        prefix = f"{name}." if name else ""
        return [
            self.column(f"{prefix}{up}", self.hidden, intermediate, bias=bias),
            self.row(f"{prefix}{down}", intermediate, self.hidden, bias=bias),
        ]

    def experts(
        self,
        count: int,
        active: int,
        intermediate: int,
        name: str = "mlp.experts",
        *,
        gated: bool = True,
        bias: bool = False,
        hidden: int | None = None,
        trtllm: bool = True,
    ) -> Experts:
        """Routed experts; `hidden` is what goes into them, unless it is the hidden state."""
        if active > count:
            raise BadConfig(
                f"{self.config.where}: a token visits {active} experts, but there are {count}"
            )
        weight_format = self.scheme.experts(f"{self.path}.{name}")
        size = hidden or self.hidden
        return Experts(name, count, active, size, intermediate, gated, bias, weight_format, trtllm)

    def cache(self, window: int | None = None, kv_heads: int | None = None) -> Attention:
        """What this layer's attention keeps in the KV cache."""
        size = self.config.head_size
        return Attention(
            self.config.integer("num_attention_heads"),
            kv_heads or self.config.num_kv_heads,
            size,
            size,
            AttentionKind.SLIDING if window else AttentionKind.FULL,
            window,
        )

    def encoder_attention(self) -> Attention:
        """Attention to the whole prompt at once, which caches nothing."""
        return encoder_only(self.cache())


def encoder_only(attention: Attention) -> Attention:
    """The same heads where every token sees the whole prompt."""
    return replace(attention, kind=AttentionKind.ENCODER_ONLY, window=None)


def bidirectional(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Decoder layers whose tokens attend to those behind them too (`is_causal` false)."""
    seen: dict[Layer, Layer] = {}

    def turned(layer: Layer) -> Layer:
        caches = (encoder_only(c) if isinstance(c, Attention) else c for c in layer.caches)
        return replace(layer, caches=tuple(caches))

    return tuple(seen.setdefault(layer, turned(layer)) for layer in layers)


def sequence_parallel(mlp: Sequence[Module]) -> list[Module]:
    """An MLP that is whole on every rank where MoE layers split a batch's tokens among them."""
    return [
        replace(module, sequence_parallel=True) if isinstance(module, Linear) else module
        for module in mlp
    ]


def assemble(
    config: Config,
    scheme: QuantScheme,
    build: Callable[[LayerBuilder, int], Layer],
    *,
    kind: Callable[[int], Hashable] = lambda index: None,
    root: str = "model.layers",
) -> tuple[Layer, ...]:
    """All decoder layers, same ones as one object.

    `kind` tells layers of different structure apart; where the quantization cannot tell two
    layers of a kind apart either, the layer is built once.
    """
    built: dict[Hashable, Layer] = {}
    same: dict[Layer, Layer] = {}
    layers = []
    for index in range(config.num_layers):
        path = f"{root}.{index}"
        key = (kind(index), scheme.layer_key(path))
        if key not in built:
            layer = build(LayerBuilder(config, scheme, path), index)
            built[key] = same.setdefault(layer, layer)
        layers.append(built[key])
    return tuple(layers)


def decoder(
    config: Config,
    scheme: QuantScheme,
    build: Callable[[LayerBuilder, int], Layer],
    *,
    width: int,
    active: int = 0,
    kind: Callable[[int], Hashable] = lambda index: None,
    tied: bool = False,
    root: str = "",
    vocabulary_on_every_stage: bool = False,
) -> Body:
    """The network that most families share: embedding, layers, a norm, one rotary table, head.

    `width` is that of the widest MLP, `active` the experts of a token, `tied` whether the class
    shares the embedding with the head by default; modules have paths below `root`. Some classes
    have both vocabulary matrices on every pipeline stage.
    """
    embedding, head = vocabulary(
        config, scheme, tied=tied_embeddings(config, tied), head=f"{root}lm_head"
    )
    return Body(
        embedding,
        assemble(config, scheme, build, kind=kind, root=f"{root}model.layers"),
        (Tensor("model.norm", (config.integer("hidden_size"),)),),
        head,
        (rotary_cache(config),),
        max_intermediate_size=width,
        experts_per_token=active,
        embedding_on_every_stage=vocabulary_on_every_stage,
        output_on_every_stage=vocabulary_on_every_stage,
    )


def blocks(
    scheme: QuantScheme, root: str, count: int, build: Callable[[str], Sequence[Module]]
) -> list[Module]:
    """Modules of so many equal blocks, from their paths below `root`.

    Those that are quantized alike are the same objects.
    """
    built: dict[Hashable, Sequence[Module]] = {}
    modules: list[Module] = []
    for index in range(count):
        path = f"{root}.{index}"
        key = scheme.layer_key(path)
        if key not in built:
            built[key] = build(path)
        modules += built[key]
    return modules


def tied_embeddings(config: Config, default: bool) -> bool:
    """`tie_word_embeddings`, whose default when absent depends on the model class."""
    return config.boolean("tie_word_embeddings", default)


def language_config(config: Config, *, tied: bool) -> Config:
    """The text part of a multimodal config.

    vLLM takes `tie_word_embeddings` from the top level, whose class has the default `tied`, and
    not from the text part.
    """
    return config.text.merged({"tie_word_embeddings": tied_embeddings(config, tied)})


def vocabulary(
    config: Config,
    scheme: QuantScheme,
    *,
    tied: bool,
    head_bias: bool = False,
    head: str = "lm_head",
) -> tuple[Embedding, Embedding | None]:
    """Token embedding and output head (None where they share a matrix)."""
    rows, hidden = config.integer("vocab_size"), config.integer("hidden_size")
    embedding = Embedding("model.embed_tokens", rows, hidden)
    if tied:
        return embedding, None
    return embedding, Embedding("lm_head", rows, hidden, head_bias, scheme.head(head))


def layer_windows(
    config: Config, fallback: Callable[[int], bool] | None = None
) -> tuple[int | None, ...]:
    """Sliding window of every layer, None for full attention.

    From `layer_types`, else by `fallback` (which layers slide), else none slides.
    """
    count = config.num_layers
    types = config.strings("layer_types")
    if types and len(types) != count:
        raise config.fail("layer_types", f"one entry for each of {count} layers")
    slides = [kind == "sliding_attention" for kind in types] or [
        bool(fallback and fallback(index)) for index in range(count)
    ]
    if not any(slides):
        return (None,) * count
    window = config.integer("sliding_window", minimum=0)
    return tuple((window or None) if slide else None for slide in slides)


def rotary_cache(
    config: Config,
    *,
    rope: Config | None = None,
    rows: int | None = None,
    size: int | None = None,
) -> RotaryCache:
    """The cos/sin table that vLLM precomputes for one RoPE configuration.

    Rows by RoPE type as in vLLM's rotary_embedding: the configured positions, multiplied for
    linear and dynamic scaling, `original x factor` for YaRN, both tables for LongRoPE. `size` is
    that of a head where the config's `head_dim` is something else.
    """
    rope = rope if rope is not None else config.rope_parameters
    positions = rows or config.integer("max_position_embeddings", 8192)
    partial = rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    width = int((size or config.head_size) * partial)
    kind = rope.string("rope_type", rope.string("type", "default"))
    if kind in ("linear", "dynamic"):
        if kind == "linear" or "factor" in rope:
            positions = int(positions * rope.number("factor", 1.0))
    elif kind == "yarn":
        original = rope.integer("original_max_position_embeddings", positions)
        positions = int(original * rope.number("factor"))
    elif kind in ("longrope", "su"):
        positions += rope.integer(
            "original_max_position_embeddings",
            config.integer("original_max_position_embeddings", positions),
        )
    theta = rope.number("rope_theta", config.number("rope_theta", _DEFAULT_THETA))
    scaling = [rope.number(key, 0.0) for key in ("factor", "original_max_position_embeddings")]
    return RotaryCache(positions, width, rope=(kind, theta, *scaling))
