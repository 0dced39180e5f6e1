"""The model as vLLM's loader and cache planner leave it: what its own code decides, byte for byte.

Weights and buffers of every pipeline stage, and the groups that the KV cache is divided among.
What vLLM can only measure at start-up (activations, graphs) is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from model_cards.caches import Attention
from model_cards.card import ModelCard
from planner.engine.attention import Backends, attention_backends
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts
from planner.engine.releases import Release
from planner.memory.buffers import RankBuffers, persistent_buffers
from planner.memory.draft import draft_bytes
from planner.memory.kv_allocation import allocation_problem
from planner.memory.kv_cache import KVCachePlan, cache_specs, plan_kv_cache
from planner.memory.kv_groups import KVCacheGroup, group_layers
from planner.memory.lora import lora_bytes
from planner.memory.offload import offloaded
from planner.memory.parallel import stage_caches, stage_layers
from planner.memory.weights import RankWeights, layout_of, weights_per_stage


@dataclass(frozen=True, slots=True)
class LoadedStage:
    """One rank of a pipeline stage, in bytes."""

    layers: int
    weights: RankWeights
    buffers: RankBuffers
    offload_band: int = 0  # by how much the part in host memory may be off

    @property
    def model_bytes(self) -> int:
        """What vLLM says loading the model took."""
        return self.weights.total + self.buffers.model


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on its ranks, one for each pipeline stage, with its KV cache groups."""

    backends: Backends
    stages: tuple[LoadedStage, ...]
    groups: tuple[KVCacheGroup, ...]
    caches: tuple[frozenset[int], ...]  # indices of the caches of each stage
    block_outermost: bool = False  # pages of all layers lie side by side in a block
    problem: str | None = None  # why the cache cannot be allocated as planned

    def kv_cache(
        self, pools: Sequence[int], config: ResolvedConfig, release: Release
    ) -> KVCachePlan:
        """The KV cache in pools of so many bytes, one for each stage."""
        return plan_kv_cache(
            self.groups,
            self.caches,
            pools,
            max_model_len=config.max_model_len,
            in_flight_tokens=config.in_flight_tokens,
            auto_length=config.auto_length,
            null_block=bool(release.fact("null_block_reserved_in_fit_check")),
            by_concurrency=bool(release.fact("kv_tokens_by_concurrency")),
            blocks_override=config.given.num_gpu_blocks_override,
            block_outermost=self.block_outermost,
        )


def load_model(card: ModelCard, config: ResolvedConfig, device: DeviceFacts) -> LoadedModel:
    """The model under the settings.

    Raises `Unloadable` where vLLM stops: a dimension does not divide, or caches do not go together.
    """
    given = config.given
    drafts = config.speculation.attention_layers() if config.speculation is not None else ()
    backends = attention_backends(
        card, device, config.kv_cache_dtype, given.tensor_parallel_size, drafts
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
    caches = _cache_layout(card, config.caches_only, device)
    return LoadedModel(backends, tuple(stages), *caches)


@lru_cache(maxsize=256)
def _cache_layout(
    card: ModelCard, config: ResolvedConfig, device: DeviceFacts
) -> tuple[tuple[KVCacheGroup, ...], tuple[frozenset[int], ...], bool, str | None]:
    """Groups, caches of each stage, whether the block is outermost, and what is wrong."""
    given = config.given
    drafts = config.speculation.attention_layers() if config.speculation is not None else ()
    backends = attention_backends(
        card, device, config.kv_cache_dtype, given.tensor_parallel_size, drafts
    )
    caches = tuple(stage_caches(card, given.pipeline_parallel_size, config.speculation))
    block_outermost = any(backend.block_outermost for backend in backends.values())
    in_order = (c if isinstance(c, Attention) else None for c in (*card.caches(), *drafts))
    groups = group_layers(
        cache_specs(card, config, device, backends),
        caches,
        hybrid=config.hybrid_kv_cache,
        block_outermost=block_outermost,
    )
    problem = allocation_problem(
        groups,
        caches,
        [backends[c] if c is not None else None for c in in_order],
        block_outermost=block_outermost,
    )
    return groups, caches, block_outermost, problem
