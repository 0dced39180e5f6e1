"""Weights of one rank as they stand after loading, by part.

What vLLM's model classes allocate under the parallel layout: parameters and buffers, repacked for
the GPU's kernels. Equal to vLLM 0.33.0's own classes byte for byte where the architecture and
format are modelled (tests/planner/test_oracle.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from model_cards.card import Layer, ModelCard
from model_cards.dtypes import DTYPE_BYTES
from model_cards.modules import Bulk, Embedding, Experts, Linear, Module, Tensor
from planner.memory.parallel import local_experts, local_linear, local_rows, stage_layers
from planner.memory.repacking import Capability, experts_bytes, linear_bytes

# Four fp32 scalars (q, k, v and probability scale) of every attention layer.
_ATTENTION_SCALES_BYTES = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """What decides a rank's share of the weights."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    expert_parallel_size: int = 1  # ranks that whole experts are spread over; 1: sliced instead
    dtype_bytes: int = 2
    capability: Capability | None = None


@dataclass(frozen=True, slots=True)
class RankWeights:
    """Bytes of one rank's parameters and buffers."""

    embedding: int = 0
    attention: int = 0  # projections and q/k norms
    mlp: int = 0
    experts: int = 0
    norms: int = 0
    lm_head: int = 0
    rotary: int = 0  # cos/sin tables
    buffers: int = 0  # attention scales, normalizers, expert maps

    @property
    def total(self) -> int:
        """All of them."""
        return sum(int(getattr(self, field.name)) for field in fields(self))


def weights_per_stage(card: ModelCard, layout: Layout) -> list[RankWeights]:
    """Weights of one rank of each pipeline stage.

    Raises `Indivisible` where a dimension does not divide, as vLLM refuses then.
    """
    stages = stage_layers(card, layout.pipeline_parallel_size)
    last = len(stages) - 1
    return [
        _stage(card, layers, layout, first=index == 0, last=index == last)
        for index, layers in enumerate(stages)
    ]


def _stage(
    card: ModelCard, layers: tuple[Layer, ...], layout: Layout, *, first: bool, last: bool
) -> RankWeights:
    parts: dict[str, int] = {}
    counts: dict[int, int] = {}
    by_id: dict[int, Layer] = {}
    for layer in layers:  # same layers are one object: each is measured once
        counts[id(layer)] = counts.get(id(layer), 0) + 1
        by_id[id(layer)] = layer
    for key, count in counts.items():
        for module in by_id[key].modules:
            part = _part(module)
            parts[part] = parts.get(part, 0) + count * module_bytes(module, layout)
    attention_layers = sum(layer.attention is not None for layer in layers)
    buffers = attention_layers * _ATTENTION_SCALES_BYTES + card.buffers_bytes
    if layout.expert_parallel_size > 1:
        buffers += sum(_expert_map_bytes(layer) for layer in layers)
    first, last = first or card.vocabulary_on_every_stage, last or card.vocabulary_on_every_stage
    # A tied model keeps the embedding on the last stage too: it is the output head there.
    embedding = lm_head = norms = 0
    if first or (last and card.lm_head is None):
        embedding = module_bytes(card.embedding, layout)
    if last:
        norms = sum(module_bytes(module, layout) for module in card.final)
        lm_head = module_bytes(card.lm_head, layout) if card.lm_head is not None else 0
    tables = sum(
        cache.rows * cache.width * (DTYPE_BYTES[cache.dtype] if cache.dtype else layout.dtype_bytes)
        for cache in card.rotary
    )
    return RankWeights(
        embedding=embedding,
        attention=parts.get("attention", 0),
        mlp=parts.get("mlp", 0),
        experts=parts.get("experts", 0),
        norms=parts.get("norms", 0) + norms,
        lm_head=lm_head,
        rotary=tables,
        buffers=buffers,
    )


def module_bytes(module: Module, layout: Layout) -> int:
    """Bytes of one rank's share of a module."""
    ranks, width = layout.tensor_parallel_size, layout.dtype_bytes
    match module:
        case Linear():
            inputs, outputs = local_linear(module, ranks)
            bias = sum(outputs) * width if module.bias else 0
            return linear_bytes(module.format, inputs, outputs, width, layout.capability) + bias
        case Experts():
            count, intermediate = local_experts(
                module, ranks, expert_parallel=layout.expert_parallel_size
            )
            return experts_bytes(module, count, intermediate, width, layout.capability)
        case Tensor():
            elements = module.elements // ranks if module.sharded else module.elements
            return elements * (DTYPE_BYTES[module.dtype] if module.dtype else width)
        case Embedding():
            rows = local_rows(module, ranks)
            bias = rows * width if module.bias else 0
            return module.format.bytes(module.width, (rows,), width) + bias
        case Bulk():
            return -(-module.bytes // ranks)


def _part(module: Module) -> str:
    match module:
        case Experts():
            return "experts"
        case Tensor():
            return "attention" if "attn" in module.name else "norms"
        case Linear():
            return "attention" if "attn" in module.name else "mlp"
        case _:
            return "mlp"


def _expert_map_bytes(layer: Layer) -> int:
    """The int32 map of every MoE layer from global to local experts."""
    return sum(4 * module.count for module in layer.modules if isinstance(module, Experts))
