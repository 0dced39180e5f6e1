"""ModelCard: what a checkpoint holds, independent of any engine setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property
from typing import Final, TypeVar

from msgspec import Struct

from model_cards.caches import Attention, AttentionKind, Cache, RecurrentState
from model_cards.config import Config
from model_cards.dtypes import DTYPE_BYTES
from model_cards.facts import Facts
from model_cards.generation import Generation
from model_cards.modules import (
    Buffer,
    Bulk,
    Embedding,
    Experts,
    HostTable,
    Linear,
    Module,
    RotaryCache,
    Tensor,
)
from model_cards.pooling import NOT_POOLED, Pooling

T = TypeVar("T")

# `max_model_len` of a model without attention and without a limit of its own.
ANY_LENGTH: Final = 2**31 - 1


class Layer(Struct, frozen=True):
    """One decoder layer. Layers that are the same share one object.

    `rotary` are the tables that only some layers use, and a stage holds only for those.
    """

    modules: tuple[Module, ...]
    caches: tuple[Cache, ...]
    rotary: tuple[RotaryCache, ...] = ()

    @property
    def kept(self) -> tuple[Cache, ...]:
        """The caches that hold something: not those of encoder-only attention."""
        return tuple(cache for cache in self.caches if _keeps(cache))


def _keeps(cache: Cache) -> bool:
    return not isinstance(cache, Attention) or cache.kind is not AttentionKind.ENCODER_ONLY


class Tower(Struct, frozen=True):
    """An encoder beside the language model (vision, audio), with what projects its output.

    `data_parallel`: `--mm-encoder-tp-mode data` keeps it whole on every rank. Where ranks do not
    divide its `heads`, it stays whole too.
    """

    name: str
    modules: tuple[Module, ...]
    rotary: tuple[RotaryCache, ...] = ()
    data_parallel: bool = True
    heads: int | None = None


class Draft(Struct, frozen=True, eq=False):
    """What drafts tokens for a target: MTP layers of its checkpoint, a head, or a whole model.

    Its own vocabulary matrices count only where `own_embedding` or `own_lm_head` says so; else
    it uses the target's, whatever its checkpoint holds.
    """

    method: str
    layers: tuple[Layer, ...]
    modules: tuple[Module, ...]  # projections and norms around the layers
    embedding: Embedding | None = None
    lm_head: Embedding | None = None
    own_embedding: bool = False
    own_lm_head: bool = False
    rotary: tuple[RotaryCache, ...] = ()
    towers: tuple[Tower, ...] = ()
    hidden_size: int | None = None  # None: the target's
    vocab_size: int | None = None  # None: the target's
    index_topk: int = 0  # tokens that its own buffer of picks has room for
    unreadable: str | None = None  # why vLLM cannot load it

    @property
    def target_features(self) -> int:
        """Features of the target's layers that it projects to its own width, 0 if none."""
        return max((m.inputs for m in self.modules if isinstance(m, Linear)), default=0)

    def every_module(self) -> Iterator[Module]:
        """The weight modules of its checkpoint."""
        for layer in self.layers:
            yield from layer.modules
        yield from self.modules
        yield from (module for module in (self.embedding, self.lm_head) if module is not None)


class Head(Struct, frozen=True):
    """That a checkpoint only drafts for another model, and which vocabulary matrices it has."""

    method: str
    own_embedding: bool
    own_lm_head: bool


class Fidelity(Enum):
    """How well a card describes its checkpoint."""

    EXACT = "exact"  # every weight module is modelled
    ESTIMATED = "estimated"  # totals or a usual layout stand in for what was not seen


class Origin(Struct, frozen=True):
    """Where the description comes from."""

    kind: str  # "folder", "kept" (by the user), "cache", "hub", "bundled"
    detail: str  # path, commit or the bundled file's source
    reconstructed: bool = False  # the config was put together from published facts
    revision: str | None = None  # the branch, tag or commit that was asked for, if any


class ModelCard(Struct, frozen=True, eq=False, dict=True):
    """A model as its checkpoint describes it. Cards are compared by identity.

    `max_model_len` is the longest context that vLLM accepts without being overruled,
    `default_max_model_len` what it takes if none is asked for (they differ for LongRoPE).
    """

    model_id: str
    architecture: str
    model_type: str
    origin: Origin
    fidelity: Fidelity
    notes: tuple[str, ...]  # what the reader must know: what is estimated, and why

    dtype: str  # of the weights; what `--dtype auto` starts from
    hidden_size: int
    vocab_size: int
    max_model_len: int
    default_max_model_len: int
    quantization: str | None  # vLLM's name of the method
    kv_cache_dtype: str | None  # what `--kv-cache-dtype auto` becomes, None: the model's dtype

    embedding: Embedding
    layers: tuple[Layer, ...]
    final: tuple[Module, ...]  # after the last layer, before the head
    lm_head: Embedding | None  # None: tied to the embedding
    rotary: tuple[RotaryCache, ...] = ()
    # vLLM's class does not leave them out of the other pipeline stages:
    embedding_on_every_stage: bool = False
    output_on_every_stage: bool = False  # final norm and head

    max_intermediate_size: int = 0  # widest activation inside a layer, all ranks together
    experts_per_token: int = 0
    checkpoint_bytes: int | None = None  # as the repository states it, None: not known
    license: str | None = None
    beside: tuple[Module, ...] = ()  # what the model object holds on every stage beside layers
    batch_elements: int = 0  # activations it keeps for every token of a batch
    residual_streams: int = 1  # hidden states between layers (hyper-connections have several)
    towers: tuple[Tower, ...] = ()
    multimodal_prefix: bool = False  # the tokens of an image attend to each other
    largest_item_tokens: int = 0  # of an image or video, where a batch must hold it whole
    deepstack_levels: int = 0  # layers of the tower whose output joins the first decoder layers
    residual_block: int = 0  # layers of which later ones attend to the sum; 0: to none
    drafts: tuple[Draft, ...] = ()  # speculative heads the checkpoint contains
    head: Head | None = None  # None: a model of its own
    unreadable: str | None = None  # why vLLM stops at its config
    stage_starts: frozenset[int] | None = None  # layers that begin a pipeline stage; None: any
    passed_bytes: int = 0  # of a token, between pipeline stages beside its hidden states
    pooling: Pooling = NOT_POOLED
    embedding_for_drafts: bool = True  # kept on the last pipeline stage too, where drafts need it
    built_from: tuple[Config, Facts] | None = None

    def __repr__(self) -> str:  # all its modules would fill pages
        return f"ModelCard({self.model_id!r})"

    @property
    def generation(self) -> Generation:
        """What its generation_config.json says."""
        return self.built_from[1].generation if self.built_from is not None else Generation()

    @property
    def tied(self) -> bool:
        """Whether embedding and output head share one matrix."""
        return self.lm_head is None

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return len(self.layers)

    @property
    def exact(self) -> bool:
        """Whether every weight module is modelled."""
        return self.fidelity is Fidelity.EXACT

    @property
    def is_moe(self) -> bool:
        """Whether any layer has routed experts."""
        return self.experts_per_token > 0

    @cached_property
    def states(self) -> tuple[RecurrentState, ...]:
        """The different recurrent states of a hybrid model, none for others."""
        return tuple(dict.fromkeys(c for c in self.caches() if isinstance(c, RecurrentState)))

    def modules(self) -> Iterator[Module]:
        """Every weight module of the served model; drafts not included."""
        for layer in self.layers:
            yield from layer.modules
        yield from self._around_layers()

    def _around_layers(self) -> Iterator[Module]:
        yield self.embedding
        yield from self.final
        if self.lm_head is not None:
            yield self.lm_head
        yield from self.beside
        for tower in self.towers:
            yield from tower.modules

    def _draft_modules(self) -> Iterator[Module]:
        return (module for draft in self.drafts for module in draft.every_module())

    @cached_property
    def different_layers(self) -> list[tuple[Layer, int]]:
        """The decoder layers that differ, with how often each occurs."""
        return count_same(self.layers)

    def counted_modules(self) -> Iterator[tuple[Module, int]]:
        """The modules of each layer that differs, and those around, with how often they occur."""
        for layer, count in self.different_layers:
            yield from ((module, count) for module in layer.modules)
        yield from count_same(self._around_layers())

    def checkpoint_modules(self) -> Iterator[Module]:
        """Every weight module of the checkpoint: the served model's and its drafts'."""
        yield from self.modules()
        yield from self._draft_modules()

    @cached_property
    def parameters(self) -> int:
        """Logical parameters of the served model (quantization scales and packing not counted)."""
        return sum(count * module.elements for module, count in self.counted_modules())

    @cached_property
    def checkpoint_parameters(self) -> int:
        """Logical parameters of the whole checkpoint, drafts included."""
        return self.parameters + count_elements(self._draft_modules())

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that take part in one token's forward pass, embedding lookup not counted."""
        total = 0
        for layer, count in self.different_layers:
            for module in layer.modules:
                if isinstance(module, Experts):
                    total += count * (module.elements * module.active // module.count)
                elif isinstance(module, Bulk):
                    total += count * module.active
                elif isinstance(module, HostTable):
                    total += count * module.lookups * module.width
                else:
                    total += count * module.elements
        head = self.lm_head or self.embedding
        return total + head.elements + sum(module.elements for module in self.final)

    @cached_property
    def format_kind(self) -> str:
        """Weight format of the largest part of a layer: `16bit`, `fp8`, `int4`, ..."""
        largest, kind = 0, "16bit"
        for layer, _ in self.different_layers:
            for module in layer.modules:
                if isinstance(module, (Linear, Experts)) and module.elements > largest:
                    largest, kind = module.elements, module.format.kind
                elif isinstance(module, Bulk) and module.elements > largest:
                    largest, kind = module.elements, module.kind
        return kind

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of the checkpoint's tensors as this card models them."""
        width = DTYPE_BYTES[self.dtype]
        modules = (*self.counted_modules(), *count_same(self._draft_modules()))
        return sum(count * module_bytes(module, width) for module, count in modules)

    def caches(self) -> Iterator[Cache]:
        """What every layer keeps, in order."""
        return iter(self._kept)

    @cached_property
    def _kept(self) -> tuple[Cache, ...]:
        of_layer = {id(layer): layer.kept for layer, _ in self.different_layers}
        return tuple(cache for layer in self.layers for cache in of_layer[id(layer)])

    @cached_property
    def attention_layers(self) -> tuple[Attention, ...]:
        """The attention of all layers, in order, whether it caches anything or not."""
        caches = (cache for layer in self.layers for cache in layer.caches)
        return tuple(cache for cache in caches if isinstance(cache, Attention))

    @property
    def has_cross_attention(self) -> bool:
        """Whether it is a decoder that reads what an encoder made of its input."""
        return any(attention.kind is AttentionKind.CROSS for attention in self.attention_kinds)

    @property
    def converses(self) -> bool:
        """Whether it answers text with text: it neither pools nor listens, as vLLM runs it."""
        return not self.pooling.pools and not self.has_cross_attention

    @cached_property
    def attention_kinds(self) -> tuple[Attention, ...]:
        """The different kinds of attention, in the order of their layers."""
        return tuple(dict.fromkeys(self.attention_layers))


def count_same(items: Iterable[T]) -> list[tuple[T, int]]:
    """The different objects with how often each occurs; layers that are the same are one object."""
    held = list(items)
    distinct = {id(item): item for item in held}
    counts = Counter(map(id, held))
    return [(item, counts[key]) for key, item in distinct.items()]


def count_elements(modules: Iterable[Module]) -> int:
    """Logical parameters of modules."""
    return sum(count * module.elements for module, count in count_same(modules))


def module_bytes(module: Module, dtype_bytes: int) -> int:
    """Bytes a whole (unsplit) module stores in a checkpoint of that dtype."""
    match module:
        case Linear():
            sizes = [output.size for output in module.outputs if output.stored]
            bias = sum(sizes) * dtype_bytes if module.bias else 0
            return module.format.bytes(module.inputs, sizes, dtype_bytes) + bias
        case Experts():
            up = module.format.bytes(module.hidden, module.up_outputs, dtype_bytes)
            down = module.format.bytes(module.intermediate, (module.hidden,), dtype_bytes)
            biases = (sum(module.up_outputs) + module.hidden) * dtype_bytes if module.bias else 0
            return module.count * (up + down + biases)
        case Tensor():
            width = DTYPE_BYTES[module.dtype] if module.dtype else dtype_bytes
            return module.elements * width
        case Embedding():
            bias = module.rows * dtype_bytes if module.bias else 0
            return module.format.bytes(module.width, (module.rows,), dtype_bytes) + bias
        case HostTable() | Bulk():
            return module.bytes
        case Buffer():
            return 0
