"""How the KV cache of a launch is laid out, whatever its size: groups, stages, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from model_cards.caches import Attention
from model_cards.card import ModelCard
from planner.engine.attention import attention_backends
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import DeviceFacts
from planner.engine.releases import Release
from planner.memory.kv_allocation import allocation_problem
from planner.memory.kv_cache import KVCachePlan, cache_specs, plan_kv_cache
from planner.memory.kv_groups import KVCacheGroup, group_layers
from planner.memory.parallel import stage_caches


class CacheLayout(Struct, frozen=True):
    """The groups that the KV cache is divided among."""

    groups: tuple[KVCacheGroup, ...]
    stages: tuple[frozenset[int], ...]  # indices of the caches on each pipeline stage
    block_outermost: bool = False  # pages of all layers lie side by side in a block
    problem: str | None = None  # why it cannot be allocated as planned

    def kv_cache(
        self, pools: Sequence[int], config: ResolvedConfig, release: Release
    ) -> KVCachePlan:
        """The KV cache in pools of so many bytes, one for each stage."""
        return plan_kv_cache(
            self.groups,
            self.stages,
            pools,
            max_model_len=config.max_model_len,
            in_flight_tokens=config.in_flight_tokens,
            auto_length=config.auto_length,
            null_block=bool(release.fact("null_block_reserved_in_fit_check")),
            by_concurrency=bool(release.fact("kv_tokens_by_concurrency")),
            blocks_override=config.given.num_gpu_blocks_override,
            block_outermost=self.block_outermost,
        )


@lru_cache(maxsize=256)
def cache_layout(card: ModelCard, config: ResolvedConfig, device: DeviceFacts) -> CacheLayout:
    """The layout of a launch; `config` with what does not change it at neutral values.

    Raises `Unloadable` where vLLM finds none.
    """
    given, drafts = config.given, config.draft_attention
    backends = attention_backends(
        card, device, config.kv_cache_dtype, given.tensor_parallel_size, drafts
    )
    stages = tuple(stage_caches(card, given.pipeline_parallel_size, config.speculation))
    block_outermost = any(backend.block_outermost for backend in backends.values())
    in_order = (c if isinstance(c, Attention) else None for c in (*card.caches(), *drafts))
    groups = group_layers(
        cache_specs(card, config, device, backends),
        stages,
        hybrid=config.hybrid_kv_cache,
        block_outermost=block_outermost,
    )
    problem = allocation_problem(
        groups,
        stages,
        [backends[c] if c is not None else None for c in in_order],
        block_outermost=block_outermost,
    )
    return CacheLayout(groups, stages, block_outermost, problem)
