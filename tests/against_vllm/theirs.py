"""vLLM's own answer, from the installed package: specs, groups, capacity, or why it refuses."""

from __future__ import annotations

import logging
import os
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from geometries import Heads, Launch, Reach
from msgspec import Struct
from vllm.config import SpeculativeConfig, VllmConfig
from vllm.distributed.utils import get_pp_indices
from vllm.model_executor.models import ModelRegistry
from vllm.model_executor.models.config import MambaModelConfig
from vllm.platforms.interface import Platform
from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
from vllm.v1.core import kv_cache_utils as planning
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheSpec
from vllm.v1.worker.utils import AttentionGroup, allocate_kv_cache, prepare_kernel_block_sizes
from vllm_layers import backend_of, model_class, spec_of

logging.getLogger("vllm").setLevel(logging.ERROR)
# vLLM refuses with an error that says why, or runs into one.
_REFUSALS = (ValueError, NotImplementedError, AssertionError, StopIteration, ZeroDivisionError)
_GROUP = planning.get_kv_cache_groups


class Group(Struct, frozen=True):
    """A KV cache group: its caches, numbered in order, and tokens of a block."""

    caches: tuple[int, ...]
    block_size: int


class Answer(Struct, frozen=True):
    """What vLLM plans. `refusal` is why it does not start; some of the plan may be there yet."""

    in_flight_tokens: int
    refusal: str | None = None
    groups: tuple[Group, ...] = ()
    bytes_per_block: tuple[int, ...] = ()
    longest_len: int = 0
    max_model_len: int = 0
    num_blocks: int = 0
    tokens: int = 0
    concurrency: float = 0.0


def answer(launch: Launch) -> Answer:
    """vLLM's plan for a launch."""
    config = _config(launch)
    in_flight = config.max_in_flight_tokens
    grouped: list[list[KVCacheGroupSpec]] = []

    def group(config: VllmConfig, specs: dict[str, KVCacheSpec]) -> list[KVCacheGroupSpec]:
        grouped.append(_GROUP(config, specs))
        return grouped[-1]

    refusal, caches = None, []
    try:
        _settle_block_sizes(config, launch)
        stages = _specs_of_stages(config, launch)
        with patch.object(planning, "get_kv_cache_groups", group):
            caches = planning.get_kv_cache_configs(config, stages, list(launch.pools))
        for cache_config in caches:
            _lay_out(config, launch, cache_config)
    except _REFUSALS as error:
        refusal = f"{type(error).__name__}: {error}"
    if not grouped or not all(stages):
        return Answer(in_flight, refusal)
    plan = _plan(config, launch, grouped[-1], stages)
    if refusal is not None:
        return Answer(in_flight, refusal, **plan)
    scheduled = planning.generate_scheduler_kv_cache_config(caches)
    tokens, concurrency = planning.get_kv_cache_capacity(config, scheduled)
    return Answer(
        in_flight,
        **plan,
        max_model_len=config.model_config.max_model_len,
        num_blocks=scheduled.num_blocks,
        tokens=tokens,
        concurrency=concurrency,
    )


def _plan(
    config: VllmConfig,
    launch: Launch,
    groups: list[KVCacheGroupSpec],
    stages: list[dict[str, KVCacheSpec]],
) -> dict[str, Any]:
    """What does not depend on whether a request fits."""
    shares = [planning._project_kv_cache_groups_to_worker(groups, specs) for specs in stages]
    block = [planning._pool_bytes_per_block(config, share) for share in shares]
    pools = list(launch.pools)
    if launch.blocks_override is not None:
        pools = [launch.blocks_override * size for size in block]
    fitted = config.model_config.max_model_len
    config.model_config.max_model_len = launch.max_model_len
    longest = min(
        planning._estimate_max_model_len_from_groups(config, share, pool - size)
        for share, pool, size in zip(shares, pools, block, strict=True)
    )
    config.model_config.max_model_len = fitted
    return {
        "groups": tuple(_numbered(group) for group in groups),
        "bytes_per_block": tuple(block),
        "longest_len": longest,
    }


def _lay_out(config: VllmConfig, launch: Launch, caches: KVCacheConfig) -> None:
    """The views of the cache that a worker makes, of memory that is never there."""
    layers = launch.caches
    attending: list[list[AttentionGroup]] = []
    for group in caches.kv_cache_groups:
        members = {}
        for name in group.layer_names:
            spec = planning._get_per_layer_spec(group, name)
            heads = layers[_number(name)]
            if isinstance(heads, Heads):
                members[backend_of(heads), spec] = SimpleNamespace(
                    backend=backend_of(heads), kv_cache_spec=spec
                )
        attending.append(list(members.values()))
    sizes = prepare_kernel_block_sizes(caches, attending)
    layout = config.cache_config.get_resolved_kv_cache_layout()
    allocate_kv_cache(caches, torch.device("meta"), layout, sizes)


def _number(layer_name: str) -> int:
    return int(layer_name.rsplit(".", 1)[1])


def _numbered(group: KVCacheGroupSpec) -> Group:
    return Group(tuple(map(_number, group.layer_names)), group.kv_cache_spec.block_size)


@cache
def _base() -> VllmConfig:
    return VllmConfig()


def _config(launch: Launch) -> VllmConfig:
    """vLLM's configuration; the model's part is what a model with these layers would say."""
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(launch.runner_v2))
    config = _base()
    config.model_config = _model_config(launch)
    config.speculative_config = _speculative_config(launch)
    parallel, scheduler, memory = (
        config.parallel_config,
        config.scheduler_config,
        config.cache_config,
    )
    parallel.tensor_parallel_size = launch.tensor_parallel
    parallel.pipeline_parallel_size = launch.pipeline_parallel
    parallel.decode_context_parallel_size = launch.decode_context
    scheduler.max_num_batched_tokens = launch.batched_tokens
    scheduler.async_scheduling = launch.async_scheduling
    scheduler.disable_hybrid_kv_cache_manager = launch.disable_hybrid
    scheduler.enable_chunked_prefill = True
    memory.block_size = launch.block_size or memory.DEFAULT_BLOCK_SIZE
    memory.user_specified_block_size = launch.block_size is not None
    memory.cache_dtype = launch.kv_cache_dtype
    memory.enable_prefix_caching = launch.prefix_caching
    memory.num_gpu_blocks_override = launch.blocks_override
    memory.kv_cache_layout = "BLHNC" if launch.block_outermost else "LBNHC"
    memory.mamba_cache_mode = "none"
    memory.mamba_block_size = None
    memory.mamba_page_size_padded = None
    if launch.states:
        MambaModelConfig.verify_and_update_config(config)
    return config


def _model_config(launch: Launch) -> SimpleNamespace:
    first = launch.attentions[0] if launch.attentions else None
    return SimpleNamespace(
        architecture="Random",
        dtype=STR_DTYPE_TO_TORCH_DTYPE[launch.dtype],
        hf_config=SimpleNamespace(model_type="random"),
        max_model_len=launch.max_model_len,
        original_max_model_len=-1 if launch.auto_length else launch.max_model_len,
        is_hybrid=bool(launch.states) and first is not None,
        use_mla=first is not None and first.reach is Reach.MLA,
        get_head_size=lambda: first.size,
        get_num_kv_heads=lambda parallel: max(1, first.kv_heads // parallel.tensor_parallel_size),
    )


def _speculative_config(launch: Launch) -> SpeculativeConfig | None:
    if not launch.speculative_tokens:
        return None
    config = object.__new__(SpeculativeConfig)
    config.method = launch.draft_method if launch.drafts else "ngram"
    config.num_speculative_tokens = launch.speculative_tokens
    config.draft_model_config = SimpleNamespace(
        hf_config=SimpleNamespace(num_nextn_predict_layers=len(launch.drafts))
    )
    return config


def _settle_block_sizes(config: VllmConfig, launch: Launch) -> None:
    """The block size for these backends, as settled once the model is built."""
    backends = list(dict.fromkeys(map(backend_of, launch.attentions)))
    with (
        patch.object(Platform, "_find_non_ssm_backends", lambda config: backends),
        patch.object(
            ModelRegistry,
            "resolve_model_cls",
            lambda *args, **kwargs: (model_class(launch, config), "Random"),
        ),
    ):
        Platform.update_block_size_for_backend(config)


def _specs_of_stages(config: VllmConfig, launch: Launch) -> list[dict[str, KVCacheSpec]]:
    """What each pipeline stage's worker reports; the draft is on the last one."""
    names = iter(f"layers.{number}" for number in range(len(launch.caches)))
    stages = []
    for rank in range(launch.pipeline_parallel):
        start, end = get_pp_indices(len(launch.layers), rank, launch.pipeline_parallel)
        caches = [cache for layer in launch.layers[start:end] for cache in layer]
        if end == len(launch.layers):
            caches += launch.drafts
        stages.append({next(names): spec_of(each, launch, config) for each in caches})
    return stages
