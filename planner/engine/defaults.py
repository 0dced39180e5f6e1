"""What vLLM makes of settings that nobody gave: the resolved configuration.

From `EngineArgs.create_engine_config` for the API server (engine/arg_utils.py, config/vllm.py),
release by release; checked against vLLM 0.33.0's own answers in tests/planner/test_oracle.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from model_cards.caches import Attention, AttentionKind
from model_cards.card import ModelCard
from planner.engine.cpu import (
    SMALLEST_WHOLE_BATCH,
    cpu_block_size,
    has_reference_mla,
    kv_cache_space,
)
from planner.engine.device import DeviceFacts, Platform, is_on
from planner.engine.eplb import ExpertBalancing, expert_balancing
from planner.engine.lora import LoraSlots, lora_slots
from planner.engine.model_runner import model_runner
from planner.engine.pooling import is_pooled
from planner.engine.releases import Release
from planner.engine.sampler import Sampler, sampler
from planner.engine.speculative import Speculation, speculation
from planner.engine_config import AUTO_LENGTH, EngineConfig

_GIB: Final = 2**30
_HUGE_BYTES: Final = 160 * _GIB
_LARGE_BYTES: Final = 70 * _GIB
_KV_ON_SM100: Final = {"glm_moe_dsa": "fp8_e4m3", "glm5_next": "fp8", "glm5_next_text": "fp8"}
_GB10: Final = (12, 1)
WITHOUT_FP16: Final = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4"})


class ResolvedConfig(Struct, frozen=True):
    """Every setting that memory and speed depend on, with vLLM's choice where none was given."""

    given: EngineConfig
    release: Release
    dtype: str
    dtype_bytes: int
    max_model_len: int
    auto_length: bool  # `max_model_len` is an upper bound; vLLM fits it to the cache
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int | None  # None: what the attention backends prefer
    kv_cache_memory_bytes: int | None  # None: what is left of the requested memory
    gpu_memory_utilization: float
    kv_cache_dtype: str
    prefix_caching: bool
    async_scheduling: bool
    model_runner_v2: bool
    cudagraph_sizes: tuple[int, ...]  # () without CUDA graphs
    runner_problem: str | None = None  # why vLLM does not start with its model runner
    chunked_prefill: bool = True
    any_length: bool = False  # lengths beyond the model's own are let through
    encoder_tokens: int = 0  # that cross-attention holds for a request
    pooling: bool = False  # hidden states are pooled, no tokens sampled
    whole_chunks: bool = False  # chunked attention is cached whole
    sampler: Sampler = Sampler.PYTORCH
    speculation: Speculation | None = None
    lora: LoraSlots | None = None
    balancing: ExpertBalancing | None = None

    @property
    def caches_only(self) -> ResolvedConfig:
        """The settings that decide the layout of the KV cache, the others at neutral values."""
        given = replace(
            self.given,
            max_num_seqs=None,
            max_num_batched_tokens=None,
            gpu_memory_utilization=None,
            kv_cache_memory_bytes=None,
            num_gpu_blocks_override=None,
        )
        return replace(
            self,
            given=given,
            max_num_seqs=0,
            max_num_batched_tokens=0,
            gpu_memory_utilization=0.0,
            kv_cache_memory_bytes=None,
            cudagraph_sizes=(),
            lora=None,
        )

    @property
    def hybrid_kv_cache(self) -> bool:
        """Whether windows and chunks are cached apart from full attention."""
        return not self.given.disable_hybrid_kv_cache_manager and not self.whole_chunks

    @property
    def speculative_tokens(self) -> int:
        """Tokens drafted for a request in each step."""
        return self.speculation.num_speculative_tokens if self.speculation is not None else 0

    @property
    def draft_attention(self) -> tuple[Attention, ...]:
        """The attention layers of the draft, whose caches follow the model's."""
        return self.speculation.attention_layers() if self.speculation is not None else ()

    @property
    def redundant_experts(self) -> int:
        """Copies of experts in every MoE layer, for load balancing."""
        return self.balancing.num_redundant_experts if self.balancing is not None else 0

    @property
    def retained_tokens(self) -> int:
        """Tokens kept behind sliding windows for the draft."""
        return self.speculation.retained_tokens if self.speculation is not None else 0

    @property
    def in_flight_tokens(self) -> int:
        """Tokens scheduled but not settled: one batch for each concurrent step.

        Before 0.26.0 windows are given room for one batch, however many are under way.
        """
        if not self.release.fact("windows_hold_batches_in_flight"):
            return self.max_num_batched_tokens
        stages = self.given.pipeline_parallel_size
        if not self.async_scheduling:
            batches = stages
        elif self.model_runner_v2 or stages == 1:
            batches = stages + 1
        else:
            batches = stages
        return batches * self.max_num_batched_tokens


def resolve(
    card: ModelCard,
    device: DeviceFacts,
    config: EngineConfig,
    release: Release,
    draft: ModelCard | None = None,
    *,
    offline: bool = False,
    environ: Mapping[str, str] | None = None,
) -> ResolvedConfig:
    """The settings vLLM would run with.

    `draft` is the model that `speculative_config` names; `offline` is the `LLM` class, whose
    batches are larger than the server's; `environ` are the variables it is started with.
    """
    pooling = is_pooled(card, config)
    dtype = _dtype(card, device, config, pooling=pooling)
    auto_length = config.max_model_len == AUTO_LENGTH
    if config.max_model_len is None or auto_length:
        length = card.default_max_model_len
    else:
        length = config.max_model_len
    speculating = speculation(card, config.speculative_config, draft, length, release)
    on_cpu = device.platform is Platform.CPU
    runner = model_runner(card, device, release, speculating, environ or {}, pooling=pooling)
    if runner.is_v2 and speculating is not None and speculating.max_model_len is not None:
        length = min(length, speculating.max_model_len)
    crossing = card.has_cross_attention  # vLLM runs prompts of encoder-decoder models whole
    whole = crossing or (pooling and card.pooling.whole_prompts)
    asked = config.enable_chunked_prefill
    chunks = not whole if asked is None else asked and not crossing
    seqs, tokens = _batch(card, device, config, release, length, offline=offline, chunks=chunks)
    space = kv_cache_space(environ or {}) if on_cpu else None
    whole_prompts = has_reference_mla(card, device)
    if whole_prompts:
        tokens = max(length, SMALLEST_WHOLE_BATCH)
    return ResolvedConfig(
        given=config,
        release=release,
        dtype=dtype,
        dtype_bytes=4 if dtype == "float32" else 2,
        max_model_len=length,
        auto_length=auto_length,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        block_size=(
            cpu_block_size(card, device, config.block_size) if on_cpu else config.block_size
        ),
        kv_cache_memory_bytes=space if space is not None else config.kv_cache_memory_bytes,
        gpu_memory_utilization=(
            config.gpu_memory_utilization
            if config.gpu_memory_utilization is not None
            else float(release.fact("gpu_memory_utilization"))
        ),
        kv_cache_dtype=_kv_cache_dtype(card, device, config),
        prefix_caching=not whole_prompts
        and (
            config.enable_prefix_caching
            if config.enable_prefix_caching is not None
            else _prefix_caching(card, release, pooling=pooling)
        ),
        chunked_prefill=chunks,
        async_scheduling=not on_cpu
        and not (pooling and not release.fact("async_scheduling_of_pooling"))
        and _async_scheduling(config, release, speculating, runner_v2=runner.is_v2),
        model_runner_v2=runner.is_v2,
        runner_problem=runner.problem,
        cudagraph_sizes=_cudagraph_sizes(
            card,
            device,
            config,
            release,
            seqs,
            tokens,
            query_len=speculating.query_len if speculating is not None else 1,
        ),
        any_length=_is_on("VLLM_ALLOW_LONG_MAX_MODEL_LEN", environ or {}),
        encoder_tokens=tokens if crossing else 0,
        pooling=pooling,
        whole_chunks=_whole_chunks(card, speculating),
        sampler=sampler(device, release, environ or {}),
        speculation=speculating,
        lora=lora_slots(card.architecture, config, release),
        balancing=expert_balancing(card, config, release),
    )


def _is_on(variable: str, environ: Mapping[str, str]) -> bool:
    """As vLLM reads its switches (envs.py)."""
    return is_on(environ.get(variable, "0"))


def _dtype(card: ModelCard, device: DeviceFacts, config: EngineConfig, *, pooling: bool) -> str:
    """`--dtype auto`: the checkpoint's 16-bit type; fp32 becomes one, bf16 needs Ampere.

    Of fp32 vLLM makes fp16 where it pools. Models that overflow in fp16 run in fp32 instead.
    """
    if config.dtype != "auto":
        return {"half": "float16", "float": "float32"}.get(config.dtype, config.dtype)
    if device.capability is not None and device.capability < (8, 0):
        return "float32" if card.model_type in WITHOUT_FP16 else "float16"
    if card.dtype != "float32":
        return card.dtype
    return "float16" if pooling and card.model_type not in WITHOUT_FP16 else "bfloat16"


def _kv_cache_dtype(card: ModelCard, device: DeviceFacts, config: EngineConfig) -> str:
    """`auto` is the model's dtype, or fp8 where the checkpoint carries KV scales.

    On the B200 family GLM's sparse attention runs on fp8 by default.
    """
    if config.kv_cache_dtype != "auto":
        return config.kv_cache_dtype
    if card.kv_cache_dtype is not None:
        return card.kv_cache_dtype
    return _KV_ON_SM100.get(card.model_type, "auto") if device.is_sm100 else "auto"


def _prefix_caching(card: ModelCard, release: Release, *, pooling: bool) -> bool:
    """Whether prefixes are cached by default: not where nothing but states is cached.

    Nor those of prompts that are pooled as a whole, or that an encoder reads.
    """
    if card.has_cross_attention or (pooling and card.pooling.whole_prompts):
        return False
    if card.states and not release.fact("prefix_caching_of_hybrids"):
        return False
    return pooling or bool(card.attention_layers)


def _batch(
    card: ModelCard,
    device: DeviceFacts,
    config: EngineConfig,
    release: Release,
    length: int,
    *,
    offline: bool,
    chunks: bool,
) -> tuple[int, int]:
    """(max_num_seqs, max_num_batched_tokens) (`get_batch_defaults`)."""
    seqs, tokens = 256, 8192 if offline else 2048
    if device.platform is Platform.CPU:
        seqs, tokens = 128 * config.world_size, 2048 * config.world_size
        if offline:
            seqs, tokens = 2 * seqs, 2 * tokens
    elif device.total_bytes >= _HUGE_BYTES and release.fact("huge_batch_from_160_gib"):
        seqs, tokens = 1024, 16384
    elif device.total_bytes >= _LARGE_BYTES:
        excluded = ("a100" in device.name.lower() and not release.fact("a100_has_large_batch")) or (
            device.capability == _GB10 and not release.fact("gb10_has_large_batch")
        )
        if not excluded:
            seqs, tokens = 1024, 16384 if offline else 8192
    seqs = config.max_num_seqs or seqs
    if config.max_num_batched_tokens is not None:
        tokens = config.max_num_batched_tokens
    else:
        if not chunks:
            tokens = max(length, tokens)
        if not config.language_model_only:
            tokens = max(card.largest_item_tokens, tokens)
        if release.fact("batched_tokens_capped_by_length"):
            tokens = min(seqs * length, tokens)
    if config.max_num_seqs is None and release.fact("max_num_seqs_capped_by_batched_tokens"):
        seqs = min(seqs, tokens)
    return seqs, tokens


def _whole_chunks(card: ModelCard, speculating: Speculation | None) -> bool:
    """Heads on hidden states do not work with chunks that are cached on their own."""
    if speculating is None or not speculating.reads_hidden_states:
        return False
    return any(each.kind is AttentionKind.CHUNKED for each in card.attention_layers)


def _async_scheduling(
    config: EngineConfig, release: Release, speculating: Speculation | None, *, runner_v2: bool
) -> bool:
    """Whether a step is scheduled while the one before runs."""
    if config.async_scheduling is not None:
        return config.async_scheduling
    piped = config.pipeline_parallel_size > 1
    on = release.fact("async_scheduling_in_pipelines" if piped else "async_scheduling")
    if speculating is not None and not runner_v2:
        methods = release.fact("async_scheduling_methods")
        on = on and not piped and speculating.method in methods
    return bool(on)


def _cudagraph_sizes(
    card: ModelCard,
    device: DeviceFacts,
    config: EngineConfig,
    release: Release,
    seqs: int,
    tokens: int,
    *,
    query_len: int,
) -> tuple[int, ...]:
    """Batch sizes, in tokens, for which CUDA graphs are captured (`_set_cudagraph_sizes`).

    A decode step takes `query_len` tokens of every request.
    """
    if config.enforce_eager or device.platform is Platform.CPU:
        return ()
    style = release.fact("cudagraph_sizes")
    gpt_oss = card.model_type == "gpt_oss"  # captured up to 1024 whatever max_num_seqs
    limit = 1024 if device.is_sm100 and release.fact("cudagraph_cap_1024_on_sm100") else 512
    widest = seqs * 2 * (query_len if release.fact("cudagraph_cap_counts_drafts") else 1)
    cap = min(limit, tokens) if style == "fixed" else min(widest, limit, tokens)
    if style in ("fixed", "step 8"):
        return tuple(size for size in (1, 2, 4, *range(8, 513, 8)) if size <= cap)
    if gpt_oss:
        cap = min(1024, tokens)
    sizes = set(_strided(cap))
    if release.fact("cudagraph_batched_tokens_size") and tokens <= cap:
        sizes.add(tokens)
    if gpt_oss:
        return tuple(sorted(sizes))
    if query_len > 1 and release.fact("cudagraph_uniform_decode_sizes"):
        most = min(seqs, limit)
        requests = (*_strided(most), most)
        sizes |= {count * query_len for count in requests if count * query_len <= cap}
    elif release.fact("cudagraph_max_num_seqs_size") and seqs <= cap:
        sizes.add(seqs)
    return tuple(sorted(sizes))


def _strided(most: int) -> tuple[int, ...]:
    """vLLM's grid: 1, 2, 4, then steps of 8 up to 256 and of 16 above."""
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16))
    return tuple(size for size in sizes if size <= most)
