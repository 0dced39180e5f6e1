"""Weights in host memory: `--cpu-offload-gb`, or layers fetched ahead (`--offload-group-size`).

From vLLM 0.33.0's model_executor/offloader. Only towers and decoder layers go there, never the
embedding or the output head; and of those only parameters, not buffers.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from model_cards.card import Layer, ModelCard
from model_cards.modules import Buffer, Experts, HostTable, Linear, Module
from model_cards.quantization.formats import ceil_div
from model_cards.quantization.mxfp4 import Mxfp4
from planner.engine.moe import MoeKernel, mxfp4_kernel
from planner.engine_config import EngineConfig
from planner.memory.parallel import local_experts, local_linear
from planner.memory.weights import Layout, module_bytes, tower_layout


class Offloaded(Struct, frozen=True):
    """Bytes of one rank: kept in host memory, and of the GPU's slots that they are fetched to.

    `host` may be off by up to `band`: the parameter where the limit falls, by vLLM's order of them.
    """

    host: int = 0
    slots: int = 0
    band: int = 0


def offloaded(
    card: ModelCard,
    layers: Iterable[Layer],
    draft: Iterable[Layer],
    config: EngineConfig,
    layout: Layout,
    *,
    first: bool,
) -> Offloaded:
    """What a rank with these layers, and a draft's behind them, keeps in host memory."""
    if config.offload_group_size:
        return _fetched_ahead(layers, config, layout)
    limit = int(config.cpu_offload_gb * 2**30)
    if not limit:
        return Offloaded()
    modules = []
    if first and layout.encoders:
        for tower in card.towers:
            modules += [(module, tower_layout(tower, layout)) for module in tower.modules]
    modules += [(module, layout) for layer in (*layers, *draft) for module in layer.modules]
    return _up_to(limit, modules)


def _up_to(limit: int, modules: Iterable[tuple[Module, Layout]]) -> Offloaded:
    """Parameters in order, whole ones, until those as built come to `limit`."""
    built, host, largest = 0, 0, 0
    for module, layout in modules:
        if built >= limit:
            break
        parameters = _as_built(module, layout)
        if not parameters:
            continue
        part = 0
        for taken, parameter in enumerate(parameters, start=1):
            built += parameter
            part += parameter
            if built >= limit and taken < len(parameters):
                break
        else:
            part = module_bytes(module, layout)
        host += part if _stays(module, layout) else 0
        largest = max(largest, *parameters)
    return Offloaded(host, band=largest if built >= limit else 0)


def _fetched_ahead(layers: Iterable[Layer], config: EngineConfig, layout: Layout) -> Offloaded:
    """The last layers of each group; the slots take each parameter of theirs, shape by shape."""
    size, count = config.offload_group_size, config.offload_num_in_group
    host, shapes = 0, {}
    for index, layer in enumerate(layers):
        if index % size < size - count:
            continue
        for module in layer.modules:
            if isinstance(module, (Buffer, HostTable)) or not _stays(module, layout):
                continue
            held = module_bytes(module, layout)
            host += held
            shapes[module.name, held] = held
    return Offloaded(host, config.offload_prefetch_step * sum(shapes.values()))


def _stays(module: Module, layout: Layout) -> bool:
    """Whether loading leaves parameters: what Triton's kernels swizzle moves back to the GPU."""
    if isinstance(module, Experts) and isinstance(module.format, Mxfp4):
        return mxfp4_kernel(module.format, layout.capability)[0] is not MoeKernel.TRITON
    return True


def _as_built(module: Module, layout: Layout) -> list[int]:
    """Bytes of a module's parameters before they are repacked, in vLLM's order."""
    ranks, width = layout.tensor_parallel_size, layout.dtype_bytes
    match module:
        case Buffer() | HostTable():
            return []
        case Linear():
            whole = module.sequence_parallel and layout.sequence_parallel
            inputs, outputs = local_linear(module, 1 if whole else ranks)
            tensors = [part.bytes for part in module.format.tensors(inputs, outputs, width)]
            return [*tensors, sum(outputs) * width] if module.bias else tensors
        case Experts():
            count, inner = local_experts(
                module,
                layout.expert_ranks,
                spread=layout.expert_parallel,
                redundant=layout.redundant_experts,
            )
            return [count * size for size in _expert(module, inner, layout)]
    return [module_bytes(module, layout)]


def _expert(experts: Experts, inner: int, layout: Layout) -> list[int]:
    """Bytes of one expert's parameters: of MXFP4, already padded, matrix by matrix."""
    hidden, width = experts.hidden, layout.dtype_bytes
    if isinstance(experts.format, Mxfp4):
        tile = mxfp4_kernel(experts.format, layout.capability)[1]
        hidden = ceil_div(hidden, tile.hidden) * tile.hidden
        inner = ceil_div(inner, tile.intermediate) * tile.intermediate
    rows = (inner,) * len(experts.up_outputs)
    up = [part.bytes for part in experts.format.tensors(hidden, rows, width)]
    down = [part.bytes for part in experts.format.tensors(inner, (hidden,), width)]
    biases = [sum(rows) * width, hidden * width] if experts.bias else []
    if isinstance(experts.format, Mxfp4):
        return [*up, *down, *biases]
    return [size for pair in zip(up, down, strict=True) for size in pair] + biases
