"""vplan's answer: a launch in its types, and its plan."""

from __future__ import annotations

from geometries import Cache, Heads, Launch, Mixer, Reach, State
from msgspec import Struct

from hardware_db import find_gpu
from model_cards.caches import Attention, AttentionKind, RecurrentState, StateKind
from model_cards.card import Draft, Fidelity, Layer, ModelCard, Origin
from model_cards.modules import Embedding
from model_cards.quantization.formats import UNQUANTIZED
from planner.engine.attention import AttentionBackend, Backends
from planner.engine.defaults import ResolvedConfig
from planner.engine.device import device_facts
from planner.engine.releases import Release
from planner.engine.speculative import Speculation
from planner.engine_config import EngineConfig
from planner.memory.cache_layout import CacheLayout
from planner.memory.kv_allocation import allocation_problem
from planner.memory.kv_cache import KVCachePlan, cache_specs
from planner.memory.kv_groups import group_layers
from planner.memory.parallel import stage_caches

DEVICE = device_facts(find_gpu("h100-sxm").gpu)


class Answer(Struct, frozen=True):
    """vplan's plan, and why it could not be allocated."""

    plan: KVCachePlan
    in_flight_tokens: int
    problem: str | None

    @property
    def starts(self) -> bool:
        return self.plan.fits and self.problem is None


_REACHES = {
    Reach.FULL: AttentionKind.FULL,
    Reach.SLIDING: AttentionKind.SLIDING,
    Reach.CHUNKED: AttentionKind.CHUNKED,
    Reach.MLA: AttentionKind.MLA,
    Reach.INDEXER: AttentionKind.INDEXER,
}


def plan(launch: Launch, release: Release) -> Answer:
    """The KV cache of a launch; raises `PlanError` where vplan says that vLLM refuses."""
    attention = _Attentions(launch)
    card = _card(launch, attention)
    config = _config(launch, attention, release)
    backends = attention.backends()
    stages = tuple(stage_caches(card, launch.pipeline_parallel, config.speculation))
    groups = group_layers(
        cache_specs(card, config, DEVICE, backends),
        stages,
        hybrid=config.hybrid_kv_cache,
        block_outermost=launch.block_outermost,
    )
    layout = CacheLayout(groups, stages, launch.block_outermost)
    problem = allocation_problem(
        groups,
        stages,
        [backends[attention[c]] if isinstance(c, Heads) else None for c in launch.caches],
        block_outermost=launch.block_outermost,
    )
    plan = layout.kv_cache(launch.pools, config, release)
    return Answer(plan, config.in_flight_tokens, problem)


class _Attentions:
    """The attention layers of a launch; what tells two of them apart may be their backend alone."""

    def __init__(self, launch: Launch) -> None:
        self._of = {
            heads: Attention(
                num_heads=heads.kv_heads * launch.tensor_parallel * (number + 1),
                num_kv_heads=heads.kv_heads,
                head_size=heads.size,
                head_size_v=heads.size_v,
                kind=_REACHES[heads.reach],
                window=heads.tokens,
            )
            for number, heads in enumerate(launch.attentions)
        }

    def __getitem__(self, heads: Heads) -> Attention:
        return self._of[heads]

    def backends(self) -> Backends:
        return {
            attention: AttentionBackend(
                f"kernels of {heads.kernels}", heads.kernels.sizes, heads.kernels.multiples
            )
            for heads, attention in self._of.items()
        }


def _state(state: State) -> RecurrentState:
    inner = state.heads * state.head_size
    match state.mixer:
        case Mixer.MAMBA1:
            return RecurrentState(
                StateKind.MAMBA1, inner, state.kernel, inner, state.state_size, dtype=_own(state)
            )
        case Mixer.MAMBA2:
            return RecurrentState(
                StateKind.MAMBA2,
                inner,
                state.kernel,
                state.heads,
                state.head_size * state.state_size,
                state.groups,
                2 * state.state_size,
                dtype=_own(state),
            )
        case Mixer.GDN:
            return RecurrentState(
                StateKind.GDN,
                inner + 2 * state.groups * state.state_size,
                state.kernel,
                state.heads,
                state.head_size * state.state_size,
                key_size=state.state_size,
                dtype=_own(state),
            )
        case Mixer.SHORT_CONV:
            return RecurrentState(StateKind.SHORT_CONV, inner, state.kernel)
        case Mixer.LINEAR:
            return RecurrentState(
                StateKind.LINEAR, heads=state.heads, head_elements=state.head_size**2
            )


def _own(state: State) -> str | None:
    return None if state.dtype == "auto" else state.dtype


def _card(launch: Launch, attention: _Attentions) -> ModelCard:
    def cache(of: Cache) -> Attention | RecurrentState:
        return attention[of] if isinstance(of, Heads) else _state(of)

    return ModelCard(
        model_id="random",
        architecture="Random",
        model_type="random",
        origin=Origin("folder", "random"),
        fidelity=Fidelity.EXACT,
        notes=(),
        dtype=launch.dtype,
        hidden_size=64,
        vocab_size=64,
        max_model_len=launch.max_model_len,
        default_max_model_len=launch.max_model_len,
        quantization=None,
        kv_cache_dtype=None,
        embedding=Embedding("embed_tokens", 64, 64, UNQUANTIZED),
        layers=tuple(Layer((), tuple(map(cache, layer))) for layer in launch.layers),
        final=(),
        lm_head=None,
    )


def _config(launch: Launch, attention: _Attentions, release: Release) -> ResolvedConfig:
    speculation = None
    if launch.drafts:
        layers = tuple(Layer((), (attention[heads],)) for heads in launch.drafts)
        draft = Draft(launch.draft_method, layers, ())
        speculation = Speculation(launch.draft_method, launch.speculative_tokens, draft)
    elif launch.speculative_tokens:
        speculation = Speculation("ngram", launch.speculative_tokens)
    return ResolvedConfig(
        given=EngineConfig(
            tensor_parallel_size=launch.tensor_parallel,
            pipeline_parallel_size=launch.pipeline_parallel,
            decode_context_parallel_size=launch.decode_context,
            num_gpu_blocks_override=launch.blocks_override,
            disable_hybrid_kv_cache_manager=launch.disable_hybrid,
        ),
        release=release,
        dtype=launch.dtype,
        dtype_bytes=4 if launch.dtype == "float32" else 2,
        max_model_len=launch.max_model_len,
        auto_length=launch.auto_length,
        max_num_seqs=1,
        max_num_batched_tokens=launch.batched_tokens,
        block_size=launch.block_size,
        kv_cache_memory_bytes=None,
        gpu_memory_utilization=0.9,
        kv_cache_dtype=launch.kv_cache_dtype,
        prefix_caching=launch.prefix_caching,
        async_scheduling=launch.async_scheduling,
        model_runner_v2=launch.runner_v2,
        cudagraph_sizes=(),
        speculation=speculation,
    )
