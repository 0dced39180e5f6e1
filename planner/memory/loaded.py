"""The model as vLLM's loader and cache planner leave it: what its own code decides, byte for byte.

Weights and buffers of every pipeline stage, and the groups that the KV cache is divided among.
What vLLM can only measure at start-up (activations, graphs) is not here.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from model_cards.card import ModelCard
from planner.engine.attention import Backends, attention_backends
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts
from planner.memory.buffers import RankBuffers, persistent_buffers
from planner.memory.cache_layout import CacheLayout, cache_layout
from planner.memory.draft import draft_bytes
from planner.memory.lora import lora_bytes
from planner.memory.offload import offloaded
from planner.memory.parallel import stage_layers
from planner.memory.weights import RankWeights, layout_of, weights_per_stage


class LoadedStage(Struct, frozen=True):
    """One rank of a pipeline stage, in bytes."""

    layers: int
    weights: RankWeights
    buffers: RankBuffers
    offload_band: int = 0  # by how much the part in host memory may be off

    @property
    def model_bytes(self) -> int:
        """What vLLM says loading the model took."""
        return self.weights.total + self.buffers.model


class LoadedModel(Struct, frozen=True):
    """A model on its ranks, one for each pipeline stage, and how its KV cache is laid out."""

    backends: Backends
    stages: tuple[LoadedStage, ...]
    cache: CacheLayout


def load_model(card: ModelCard, config: ResolvedConfig, device: DeviceFacts) -> LoadedModel:
    """The model under the settings.

    Raises `Unloadable` where vLLM stops: a dimension does not divide, or caches do not go together.
    """
    given = config.given
    backends = attention_backends(
        card, device, config.kv_cache_dtype, given.tensor_parallel_size, config.draft_attention
    )
    layout = layout_of(card, config, device)
    weights = weights_per_stage(card, layout)
    last = len(weights) - 1
    speculation = config.speculation
    draft = speculation.decoder_layers if speculation is not None else ()
    stages: list[LoadedStage] = []
    for index, layers in enumerate(stage_layers(card, given.pipeline_parallel_size)):
        in_host = offloaded(
            card, layers, draft if index == last else (), given, layout, first=index == 0
        )
        share = replace(
            weights[index],
            draft=draft_bytes(card, config.speculation, layout) if index == last else 0,
            lora=lora_bytes(card, layers, config, layout, first=index == 0, last=index == last),
            offloaded=in_host.host,
            fetched=in_host.slots,
        )
        buffers = persistent_buffers(
            card,
            config,
            device,
            backends,
            layers,
            layout,
            before=sum(stage.layers for stage in stages),
            last_stage=index == last,
        )
        stages.append(LoadedStage(len(layers), share, buffers, in_host.band))
    return LoadedModel(backends, tuple(stages), cache_layout(card, config.caches_only, device))
