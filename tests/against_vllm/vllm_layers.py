"""vLLM's layers and attention backends of a random model, for the specs that they make.

Each stands in for a real layer: it has the attributes that vLLM's own code computes a spec from,
and that code is called.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from geometries import Cache, Heads, Kernels, Launch, Mixer, Reach, State
from vllm.config import VllmConfig
from vllm.model_executor.layers.attention import Attention, MLAAttention
from vllm.model_executor.layers.attention.chunked_local_attention import ChunkedLocalAttention
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2
from vllm.model_executor.layers.mamba.mamba_utils import (
    MambaStateDtypeCalculator,
    MambaStateShapeCalculator,
)
from vllm.model_executor.models.deepseek_v2 import DeepseekV32IndexerCache
from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype
from vllm.v1.attention.backend import AttentionBackend, AttentionType, MultipleOf
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.kv_cache_interface import KVCacheSpec, MambaSpec
from vllm.v1.worker.utils import customize_attention_spec

_KINDS = {
    Mixer.MAMBA1: MambaAttentionBackendEnum.MAMBA1,
    Mixer.MAMBA2: MambaAttentionBackendEnum.MAMBA2,
    Mixer.GDN: MambaAttentionBackendEnum.GDN_ATTN,
    Mixer.SHORT_CONV: MambaAttentionBackendEnum.SHORT_CONV,
    Mixer.LINEAR: MambaAttentionBackendEnum.LINEAR,
}
_SHAPES = MambaStateShapeCalculator
_DTYPES = MambaStateDtypeCalculator


def backend_of(heads: Heads) -> type[AttentionBackend]:
    """The backend of a layer."""
    return _backend(heads.kernels, mla=heads.reach in (Reach.MLA, Reach.INDEXER))


@cache
def _backend(kernels: Kernels, *, mla: bool) -> type[AttentionBackend]:
    """One with these kernel blocks, which packs what Triton's packs."""
    sizes = [MultipleOf(size) if kernels.multiples else size for size in kernels.sizes]

    def supported(spec: KVCacheSpec | None = None) -> list[int | MultipleOf]:
        return list(sizes)

    return type(
        f"Backend{sizes}",
        (TritonAttentionBackend,),
        {
            "get_supported_kernel_block_sizes": staticmethod(supported),
            "supports_block_size": AttentionBackend.__dict__["supports_block_size"],
            "get_preferred_block_size": AttentionBackend.__dict__["get_preferred_block_size"],
            "is_mla": classmethod(lambda cls: mla),
        },
    )


def spec_of(cache: Cache, launch: Launch, config: VllmConfig) -> KVCacheSpec:
    """The spec of one cache, as the worker collects it from the layer."""
    if isinstance(cache, State):
        return _recurrent(cache, launch, config)
    return customize_attention_spec(backend_of(cache), _attention(cache, launch, config))


def _attention(heads: Heads, launch: Launch, config: VllmConfig) -> Any:
    """From the attributes that a decoder layer's attention has on one rank."""
    layer = SimpleNamespace(
        attn_type=AttentionType.DECODER,
        num_kv_heads=max(1, heads.kv_heads // launch.tensor_parallel),
        head_size=heads.size,
        head_size_v=heads.size_v,
        head_dim=heads.size,
        kv_cache_dtype=launch.kv_cache_dtype,
        kv_cache_torch_dtype=kv_cache_dtype_str_to_dtype(
            launch.kv_cache_dtype, config.model_config
        ),
        attn_backend=backend_of(heads),
        sliding_window=heads.tokens if heads.reach is Reach.SLIDING else None,
        attention_chunk_size=heads.tokens,
        indexer=None,
        non_causal_multi_token_decode=False,
        cache_config=config.cache_config,
        dtype=torch.uint8,
    )
    match heads.reach:
        case Reach.CHUNKED:
            return ChunkedLocalAttention.get_kv_cache_spec(layer, config)
        case Reach.MLA:
            return MLAAttention.get_kv_cache_spec(layer, config)
        case Reach.INDEXER:
            return DeepseekV32IndexerCache.get_kv_cache_spec(layer, config)
    return Attention.get_kv_cache_spec(layer, config)


def _recurrent(state: State, launch: Launch, config: VllmConfig) -> KVCacheSpec:
    base = MambaMixer2 if state.mixer is Mixer.MAMBA2 else MambaBase
    methods = {
        "get_state_shape": lambda self: shapes_of(state, launch),
        "get_state_dtype": lambda self: dtypes_of(state, config),
        "mamba_type": property(lambda self: _KINDS[state.mixer]),
        "get_attn_backend": lambda self: None,
    }
    kind = type("Layer", (base,), methods)
    spec = kind.get_kv_cache_spec(kind.__new__(kind), config)
    assert spec is not None
    return spec


def shapes_of(state: State, launch: Launch) -> tuple[tuple[int, ...], ...]:
    """The shapes of a layer's states on one rank."""
    ranks, drafted = launch.tensor_parallel, launch.speculative_tokens
    inner = state.heads * state.head_size
    match state.mixer:
        case Mixer.MAMBA1:
            return _SHAPES.mamba1_state_shape(ranks, inner, state.state_size, state.kernel)
        case Mixer.MAMBA2:
            return _SHAPES.mamba2_state_shape(
                ranks,
                inner,
                state.groups,
                state.heads,
                state.head_size,
                state.state_size,
                state.kernel,
                drafted,
            )
        case Mixer.GDN:
            return _SHAPES.gated_delta_net_state_shape(
                ranks,
                state.groups,
                state.heads,
                state.state_size,
                state.head_size,
                state.kernel,
                drafted,
            )
        case Mixer.SHORT_CONV:
            return _SHAPES.short_conv_state_shape(ranks, inner, state.kernel, drafted)
        case Mixer.LINEAR:
            return _SHAPES.linear_attention_state_shape(state.heads, ranks, state.head_size)


def dtypes_of(state: State, config: VllmConfig) -> tuple[torch.dtype, ...]:
    """The dtypes of a layer's states."""
    dtype = config.model_config.dtype
    match state.mixer:
        case Mixer.MAMBA1:
            return _DTYPES.mamba1_state_dtype(dtype, "auto", state.dtype)
        case Mixer.MAMBA2:
            return _DTYPES.mamba2_state_dtype(dtype, "auto", state.dtype)
        case Mixer.GDN:
            return _DTYPES.gated_delta_net_state_dtype(dtype, "auto", state.dtype)
        case Mixer.SHORT_CONV:
            return _DTYPES.short_conv_state_dtype(dtype, "auto")
        case Mixer.LINEAR:
            return _DTYPES.linear_attention_state_dtype(dtype, "auto")


def model_class(launch: Launch, config: VllmConfig) -> Any:
    """What the platform asks of a hybrid model's class: the states of its layers."""
    specs = [
        MambaSpec(shapes=shapes_of(state, launch), dtypes=dtypes_of(state, config), block_size=-1)
        for state in launch.states
    ]
    if len(specs) > 1:
        return SimpleNamespace(get_mamba_specs_from_config=lambda config: specs)
    return SimpleNamespace(
        get_mamba_state_shape_from_config=lambda config: specs[0].shapes,
        get_mamba_state_dtype_from_config=lambda config: specs[0].dtypes,
    )
