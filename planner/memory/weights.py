"""Weights of one rank as they stand after loading, by part.

What vLLM's model classes allocate under the parallel layout: parameters and buffers, repacked for
the GPU's kernels. Equal to vLLM 0.33.0's own classes byte for byte where the architecture and
format are modelled (tests/planner/test_oracle.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import astuple, replace

from model_cards.card import Layer, ModelCard, Tower, count_same
from model_cards.dtypes import DTYPE_BYTES
from model_cards.modules import (
    AS_LONG_AS_PROMPTS,
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
from model_cards.quantization.formats import FLOAT32
from planner.engine.deepseek_v4 import padded_heads
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.moe import TRITON_AS_STORED, TritonMxfp4
from planner.engine.recurrent import has_fused_decode
from planner.memory.parallel import local_experts, local_linear, local_rows, stage_layers
from planner.memory.repacking import Capability, experts_bytes, linear_bytes
from planner.memory.rocm_padding import gaps_bytes


class Layout(Struct, frozen=True):
    """What decides a rank's share of the weights."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel: bool = False  # whole experts are spread over ranks, not sliced
    balanced: bool = False  # experts may move between ranks
    redundant_experts: int = 0  # copies for load balancing
    dtype_bytes: int = 2
    capability: Capability | None = None
    eager: bool = False
    encoders: bool = True  # not with --language-model-only
    encoders_split: bool = True  # not with --mm-encoder-tp-mode data
    fused_decode: bool = False  # a kernel runs the whole decode step of recurrent layers
    max_model_len: int = 0  # where anything held depends on it
    triton_mxfp4: TritonMxfp4 = TRITON_AS_STORED
    apart: bool = False  # rows of 16-bit experts are moved apart in memory

    @property
    def expert_ranks(self) -> int:
        """Ranks that share the routed experts: data-parallel replicas share them too."""
        return self.tensor_parallel_size * self.data_parallel_size

    @property
    def sequence_parallel(self) -> bool:
        """Whether MoE layers split a batch's tokens among the tensor-parallel ranks."""
        return (
            self.expert_parallel and self.tensor_parallel_size > 1 and self.data_parallel_size > 1
        )


def layout_of(card: ModelCard, config: ResolvedConfig, device: DeviceFacts) -> Layout:
    """How a launch lays the weights out."""
    given = config.given
    return Layout(
        given.tensor_parallel_size,
        given.pipeline_parallel_size,
        given.data_parallel_size,
        given.enable_expert_parallel and card.is_moe,
        config.balancing is not None,
        config.redundant_experts,
        config.dtype_bytes,
        device.capability,
        eager=given.enforce_eager,
        encoders=not given.language_model_only,
        encoders_split=given.mm_encoder_tp_mode != "data",
        fused_decode=any(has_fused_decode(state, device, config) for state in card.states),
        max_model_len=config.max_model_len if _follows_length(card) else 0,
        triton_mxfp4=TritonMxfp4(
            config.release.fact("mxfp4_triton_side"),
            config.release.fact("mxfp4_triton_keeps_scales"),
        ),
        apart=device.platform is Platform.ROCM
        and config.balancing is None
        and config.release.fact("rocm_experts_apart"),
    )


def _follows_length(card: ModelCard) -> bool:
    return any(table.rows == AS_LONG_AS_PROMPTS for table in card.rotary)


class RankWeights(Struct, frozen=True):
    """Bytes of one rank's parameters and buffers."""

    embedding: int = 0
    attention: int = 0  # projections and q/k norms; mixers of recurrent layers
    mlp: int = 0
    experts: int = 0
    norms: int = 0
    lm_head: int = 0
    encoders: int = 0  # vision and audio towers with their projectors
    rotary: int = 0  # cos/sin tables
    buffers: int = 0  # attention scales, normalizers, expert maps
    draft: int = 0  # of speculative decoding, whole
    lora: int = 0  # slots for adapters
    offloaded: int = 0  # of all these, in host memory
    fetched: int = 0  # room for what is fetched from there

    @property
    def total(self) -> int:
        """All that is on the GPU."""
        held: int = sum(astuple(self))
        return held - 2 * self.offloaded


@lru_cache(maxsize=1024)
def weights_per_stage(card: ModelCard, layout: Layout) -> tuple[RankWeights, ...]:
    """Weights of one rank of each pipeline stage.

    Raises `Indivisible` where a dimension does not divide, as vLLM refuses then.
    """
    stages = stage_layers(card, layout.pipeline_parallel_size)
    last = len(stages) - 1
    return tuple(
        _stage(card, layers, layout, first=index == 0, last=index == last)
        for index, layers in enumerate(stages)
    )


def _stage(
    card: ModelCard, layers: tuple[Layer, ...], layout: Layout, *, first: bool, last: bool
) -> RankWeights:
    parts: dict[str, int] = {}
    for layer, count in count_same(layers):
        for module in layer.modules:
            part = part_of(module)
            parts[part] = parts.get(part, 0) + count * module_bytes(module, layout)
    for module in card.beside:
        part = part_of(module)
        parts[part] = parts.get(part, 0) + module_bytes(module, layout)
    buffers = parts.pop("buffers", 0) + expert_map_bytes(layers, layout)
    embeds, puts_out = first or card.embedding_on_every_stage, last or card.output_on_every_stage
    # A tied model keeps the embedding on the last stage too: it is the output head there.
    embedding = lm_head = norms = 0
    if embeds or (puts_out and card.lm_head is None):
        embedding = module_bytes(card.embedding, layout)
    if puts_out:
        norms = sum(module_bytes(module, layout) for module in card.final)
        lm_head = module_bytes(card.lm_head, layout) if card.lm_head is not None else 0
    tables = sum(rotary_bytes(cache, layout) for cache in rotary_tables(card, layers))
    return RankWeights(
        embedding=embedding + parts.get("embedding", 0),
        attention=parts.get("attention", 0),
        mlp=parts.get("mlp", 0),
        experts=parts.get("experts", 0),
        norms=parts.get("norms", 0) + norms,
        lm_head=lm_head,
        encoders=encoder_bytes(card, layout) if first else 0,
        rotary=tables,
        buffers=buffers,
    )


def rotary_tables(card: ModelCard, layers: tuple[Layer, ...]) -> tuple[RotaryCache, ...]:
    """The tables of a stage: the model's, and those that its layers ask for, once each."""
    own = dict.fromkeys(table for layer in layers for table in layer.rotary)
    return (*card.rotary, *own)


def encoder_bytes(card: ModelCard, layout: Layout) -> int:
    """The towers of a multimodal model, on the first pipeline stage."""
    if not layout.encoders:
        return 0
    total = 0
    for tower in card.towers:
        of = tower_layout(tower, layout)
        total += sum(n * module_bytes(module, of) for module, n in count_same(tower.modules))
        total += sum(rotary_bytes(cache, of) for cache in tower.rotary)
    return total


def tower_layout(tower: Tower, layout: Layout) -> Layout:
    """How a tower is laid out: whole on every rank if so asked or not divisible."""
    indivisible = tower.heads is not None and tower.heads % layout.tensor_parallel_size
    asked = tower.data_parallel and not layout.encoders_split
    return replace(layout, tensor_parallel_size=1) if asked or indivisible else layout


def rotary_bytes(cache: RotaryCache, layout: Layout) -> int:
    """Bytes of a cos/sin table, which every rank holds whole."""
    dtype = cache.eager_dtype if layout.eager and cache.eager_dtype else cache.dtype
    width = DTYPE_BYTES[dtype] if dtype else layout.dtype_bytes
    rows = layout.max_model_len if cache.rows == AS_LONG_AS_PROMPTS else cache.rows
    return rows * cache.width * width


def module_bytes(module: Module, layout: Layout) -> int:
    """Bytes of one rank's share of a module."""
    ranks, width = layout.tensor_parallel_size, layout.dtype_bytes
    match module:
        case Linear():
            whole = module.sequence_parallel and layout.sequence_parallel
            inputs, outputs = local_linear(module, 1 if whole else ranks)
            bias = sum(outputs) * (4 if module.format is FLOAT32 else width) if module.bias else 0
            matrix = linear_bytes(
                module.format,
                inputs,
                outputs,
                width,
                layout.capability,
                batched=module.batched,
            )
            return matrix + bias
        case Experts():
            count, intermediate = local_experts(
                module,
                layout.expert_ranks,
                spread=layout.expert_parallel,
                redundant=layout.redundant_experts,
            )
            if layout.balanced:  # TRT-LLM's 16-bit kernel does not know where they moved
                module = replace(module, trtllm=False)
            held = experts_bytes(
                module, count, intermediate, width, layout.capability, layout.triton_mxfp4
            )
            return held + (gaps_bytes(module, count, intermediate, width) if layout.apart else 0)
        case Tensor():
            shards = min(ranks, module.shape[0]) if module.sharded else 1
            width = DTYPE_BYTES[module.dtype] if module.dtype else width
            elements = module.elements // shards
            if module.padded:
                elements = padded_heads(elements, layout.capability)
            return elements * width
        case Embedding():
            rows = local_rows(module, ranks)
            bias = rows * width if module.bias else 0
            return module.format.bytes(module.width, (rows,), width) + bias
        case HostTable():
            return 0
        case Bulk():
            return -(-module.bytes // ranks)
        case Buffer():
            if module.fused_decode and not layout.fused_decode:
                return 0
            size = module.size // ranks if module.sharded else module.size
            return size * (DTYPE_BYTES[module.dtype] if module.dtype else width)


def part_of(module: Module) -> str:
    """The part of a rank's weights that a module counts to: a field of `RankWeights`."""
    match module:
        case Experts():
            return "experts"
        case Buffer():
            return "buffers"
        case Embedding():
            return "embedding"
        case Tensor():
            return "attention" if _mixes_tokens(module.name) else "norms"
        case Linear():
            return "attention" if _mixes_tokens(module.name) else "mlp"
        case _:
            return "mlp"


def _mixes_tokens(name: str) -> bool:
    """Whether a module belongs to attention or to the mixer of a recurrent layer."""
    return any(part in name for part in ("attn", "attention.", "mixer", "conv."))


def expert_map_bytes(layers: Iterable[Layer], layout: Layout) -> int:
    """The int32 map of every MoE layer from global to local experts."""
    if not layout.expert_parallel or layout.expert_ranks == 1:
        return 0
    routed = [m for layer in layers for m in layer.modules if isinstance(m, Experts)]
    return sum(4 * (module.count + layout.redundant_experts) for module in routed)
