"""What stops a launch before any memory is spent: combinations that vLLM refuses.

Each rule gives vLLM's reason in one line. From `ModelConfig`, `ParallelConfig` and the
quantization classes of vLLM 0.33.0.
"""

from __future__ import annotations

from model_cards.caches import AttentionKind
from model_cards.card import ModelCard
from model_cards.drafts import SELF_CONTAINED
from planner.engine.architectures import ModelSupport, model_support, supports_pipeline
from planner.engine.attention import attention_backends, backend_problem
from planner.engine.defaults import WITHOUT_FP16, ResolvedConfig
from planner.engine.device import DeviceFacts, Platform
from planner.engine.eplb import balancing_problem
from planner.engine.flags import accepts_choice, unknown_option
from planner.engine.kv_cache_dtypes import is_modelled
from planner.engine.lora import LORA_RANKS, MAX_VOCABULARY, takes_adapters
from planner.engine.pooling import runner_problem
from planner.engine.refusal import Refusal, RefusalKind
from planner.engine.releases import Release

# Lowest compute capability of a quantization method in the stock wheel (get_min_capability).
_MIN_CAPABILITY = {
    "awq": (7, 5),
    "gptq": (7, 5),
    "compressed-tensors": (7, 5),
    "bitsandbytes": (7, 0),
}
# Methods that compute in 16 bit alone (get_supported_act_dtypes).
_SIXTEEN_BIT_ONLY = ("awq", "gptq", "fp8")
_WITHOUT_NVFP4 = (Platform.CPU, Platform.XPU)


def refusals(
    card: ModelCard, device: DeviceFacts, config: ResolvedConfig, release: Release
) -> tuple[Refusal, ...]:
    """Why vLLM would not start, most basic first; empty if no rule is broken."""
    found = [
        (RefusalKind.WHEEL, _wheel(device, release)),
        (RefusalKind.OPTION, _options(config, release)),
        (RefusalKind.ARCHITECTURE, _architecture(card, release)),
        (RefusalKind.RUNNER, runner_problem(card, config.given)),
        (RefusalKind.MAX_MODEL_LEN, _length(card, config, release)),
        (RefusalKind.HEADS, _heads(card, config)),
        (RefusalKind.PIPELINE, _pipeline(card, config, release)),
        (RefusalKind.CONTEXT_PARALLEL, _context_parallel(card, config)),
        (RefusalKind.EXPERTS, balancing_problem(card, device, config.given, config.balancing)),
        (RefusalKind.BATCH, _batch(config)),
        (RefusalKind.QUANTIZATION, _quantization(card, device, config, release)),
        (RefusalKind.SPECULATION, _speculation(config, release)),
        (RefusalKind.MODEL_RUNNER, config.runner_problem),
        (RefusalKind.VOCABULARY, _vocabulary(card, config)),
        (RefusalKind.LORA, _lora(card, config, release)),
        (RefusalKind.BACKEND, _backend(card, device, config, release)),
        (RefusalKind.DTYPE, _dtype(card, device, config)),
    ]
    return tuple(Refusal(kind, reason) for kind, reason in found if reason is not None)


def is_emulated(card: ModelCard, device: DeviceFacts) -> bool:
    """Whether vLLM has no kernel for the weight format but unpacks it anew in every step.

    Such a launch starts, at a fraction of the speed that bandwidth suggests.
    """
    return card.format_kind == "nvfp4" and device.platform is Platform.ROCM


def _wheel(device: DeviceFacts, release: Release) -> str | None:
    least = release.fact("wheel_min_capability")
    if least is None or device.platform is not Platform.CUDA or device.capability is None:
        return None
    if device.capability >= tuple(least):
        return None
    return (
        f"the wheel of vLLM {release.name} has no kernels for compute capability "
        f"{device.capability[0]}.{device.capability[1]}; it needs {least[0]}.{least[1]} or newer"
    )


def unexamined(device: DeviceFacts, release: Release) -> str | None:
    """What is not known of a release on this device, in one sentence."""
    if release.fact("wheel_min_capability") is not None or device.capability is None:
        return None
    if device.platform is not Platform.CUDA or device.capability >= (7, 5):
        return None
    return (
        f"whether the wheel of vLLM {release.name} has kernels for compute capability "
        f"{device.capability[0]}.{device.capability[1]} was not examined"
    )


def _options(config: ResolvedConfig, release: Release) -> str | None:
    unknown = unknown_option(config.given, release)
    return f"vLLM {release.name} has no option {unknown}" if unknown is not None else None


def _architecture(card: ModelCard, release: Release) -> str | None:
    if card.unreadable is not None:
        return f"vLLM cannot read the model's config: {card.unreadable}"
    support = model_support(card.architecture, release)
    if support is ModelSupport.NONE:
        return f"vLLM {release.name} has no model class for {card.architecture}"
    if support is ModelSupport.DROPPED:
        return f"vLLM {release.name} no longer has a model class for {card.architecture}"
    return None


def _heads(card: ModelCard, config: ResolvedConfig) -> str | None:
    ranks = config.given.tensor_parallel_size
    for attention in card.attention_layers:
        if attention.kind is not AttentionKind.INDEXER and attention.num_heads % ranks:
            return (
                f"the number of attention heads ({attention.num_heads}) must be divisible by "
                f"tensor parallel size ({ranks})"
            )
    drafts = config.draft_attention
    for attention in drafts:
        if attention.kind is not AttentionKind.INDEXER and attention.num_heads % ranks:
            return (
                f"the number of attention heads of the draft ({attention.num_heads}) must be "
                f"divisible by tensor parallel size ({ranks})"
            )
    return None


def _pipeline(card: ModelCard, config: ResolvedConfig, release: Release) -> str | None:
    split = config.given.pipeline_parallel_size > 1
    if split and not supports_pipeline(card.architecture, release):
        return f"{card.architecture} does not support pipeline parallelism"
    return None


def _context_parallel(card: ModelCard, config: ResolvedConfig) -> str | None:
    """Ranks that share a request's tokens must hold the same KV heads otherwise."""
    shared, ranks = config.given.decode_context_parallel_size, config.given.tensor_parallel_size
    if ranks % shared:
        return f"decode context parallel size ({shared}) must divide tensor parallel size ({ranks})"
    for attention in card.attention_layers if shared > 1 else ():
        if attention.kind in (AttentionKind.MLA, AttentionKind.INDEXER):
            continue
        if attention.kind is AttentionKind.SLIDING_MLA:
            return "windows of latent vectors cannot be shared among ranks (DCP)"
        copies = ranks // attention.num_kv_heads
        if shared > copies or ranks == attention.num_kv_heads:
            return (
                f"decode context parallel size ({shared}) is more than the {max(copies, 1)} "
                f"rank(s) that hold each of the {attention.num_kv_heads} KV heads"
            )
        if attention.num_heads // attention.num_kv_heads % shared:
            return f"the query heads of a KV head must be divisible by {shared} (DCP)"
    return None


def _length(card: ModelCard, config: ResolvedConfig, release: Release) -> str | None:
    if config.auto_length and not release.fact("auto_max_model_len"):
        return f"vLLM {release.name} does not take auto for --max-model-len"
    if config.max_model_len > card.max_model_len and not config.any_length:
        return (
            f"max_model_len ({config.max_model_len}) is greater than the model's own limit "
            f"({card.max_model_len}); VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 would overrule that"
        )
    return None


def _batch(config: ResolvedConfig) -> str | None:
    if config.max_num_batched_tokens < config.max_num_seqs:
        return (
            f"max_num_batched_tokens ({config.max_num_batched_tokens}) must be at least "
            f"max_num_seqs ({config.max_num_seqs})"
        )
    if not config.chunked_prefill and config.max_num_batched_tokens < config.max_model_len:
        return (
            f"without chunked prefill max_num_batched_tokens ({config.max_num_batched_tokens}) "
            f"must be at least max_model_len ({config.max_model_len})"
        )
    return None


def _describes(given: str, method: str | None) -> bool:
    """Whether `--quantization` names the checkpoint's method, perhaps with a kernel's name."""
    if method is None or given == method:
        return given == method
    families = ("awq", "gptq", "modelopt")
    return any(family in given and family in method for family in families)


def _has_fp8(device: DeviceFacts) -> bool:
    """Whether an AMD card computes in FP8: CDNA 3 and 4, RDNA 4."""
    return device.gfx is not None and device.gfx.startswith(("gfx942", "gfx95", "gfx12"))


def _quantization(
    card: ModelCard, device: DeviceFacts, config: ResolvedConfig, release: Release
) -> str | None:
    method, given = card.quantization, config.given.quantization
    if given is not None and not accepts_choice(release, "quantization", given):
        return f"vLLM {release.name} has no quantization method {given!r}"
    if given is not None and not _describes(given, method):
        return (
            f"--quantization {given} does not describe this checkpoint, which is "
            f"{method or 'not quantized'}"
        )
    if method is None:
        return None
    if not accepts_choice(release, "quantization", method):
        return f"vLLM {release.name} has no quantization method {method!r}"
    if device.platform is Platform.ROCM and card.format_kind == "fp8" and not _has_fp8(device):
        return f"vLLM has no FP8 kernels for {device.gfx or device.name}"
    if card.format_kind == "nvfp4" and device.platform in _WITHOUT_NVFP4:
        return f"vLLM has no NVFP4 kernels for {device.platform.value}"
    if device.platform is not Platform.CUDA or device.capability is None:
        return None
    needed = _MIN_CAPABILITY.get(method, tuple(release.fact("fp8_marlin_capability")))
    if device.capability < needed:
        return (
            f"{method} checkpoints need compute capability {needed[0]}.{needed[1]}; "
            f"this GPU has {device.capability[0]}.{device.capability[1]}"
        )
    return None


def _speculation(config: ResolvedConfig, release: Release) -> str | None:
    given = config.given.speculative_config
    if given is None:
        return None
    if given.method not in release.fact("speculative_methods"):
        return f"vLLM {release.name} has no speculative method {given.method!r}"
    if config.speculation is not None and config.speculation.problem is not None:
        return config.speculation.problem
    stages = config.given.pipeline_parallel_size
    if stages > 1 and given.method in SELF_CONTAINED and release.fact("drafts_take_pipelines"):
        return f"vLLM {release.name} has no pipeline parallelism with {given.method}"
    ranks, split = config.given.tensor_parallel_size, given.draft_tensor_parallel_size
    if split is not None and split not in (1, ranks):
        return f"draft_tensor_parallel_size ({split}) must be 1 or that of the target ({ranks})"
    return None


def _vocabulary(card: ModelCard, config: ResolvedConfig) -> str | None:
    """A draft model must have the target's vocabulary, and whatever the V0 engine drafts with."""
    speculation = config.speculation
    if speculation is None or speculation.draft is None:
        return None
    if speculation.method != "draft_model" and not speculation.on_v0:
        return None
    own = speculation.draft.vocab_size
    if own != card.vocab_size:
        return f"the draft model's vocabulary ({own}) is not the target's ({card.vocab_size})"
    return None


def _lora(card: ModelCard, config: ResolvedConfig, release: Release) -> str | None:
    if config.lora is None:
        return None
    if not takes_adapters(card.architecture, release):
        return f"{card.architecture} does not support LoRA"
    if config.lora.max_lora_rank not in LORA_RANKS:
        ranks = ", ".join(map(str, LORA_RANKS))
        return f"--max-lora-rank must be one of {ranks}; {config.lora.max_lora_rank} was asked for"
    if config.lora.embeddings and card.vocab_size > MAX_VOCABULARY:
        return (
            f"LoRA on a vocabulary of {card.vocab_size} is not supported (at most {MAX_VOCABULARY})"
        )
    decoded = config.max_num_seqs * (1 + config.speculative_tokens)
    if config.speculative_tokens and config.max_num_batched_tokens < decoded:
        return (
            f"with LoRA and drafts max_num_batched_tokens ({config.max_num_batched_tokens}) must "
            f"be at least max_num_seqs x tokens a step ({decoded})"
        )
    return None


def _backend(
    card: ModelCard, device: DeviceFacts, config: ResolvedConfig, release: Release
) -> str | None:
    dtype = config.kv_cache_dtype
    if not accepts_choice(release, "kv_cache_dtype", dtype):
        return f"vLLM {release.name} has no KV cache dtype {dtype!r}"
    if not is_modelled(dtype):
        return f"the KV cache dtype {dtype!r} is not modelled yet"
    drafts = config.draft_attention
    ranks = config.given.tensor_parallel_size
    backends = attention_backends(card, device, dtype, ranks, drafts)
    return backend_problem(card, device, dtype, backends)


def _dtype(card: ModelCard, device: DeviceFacts, config: ResolvedConfig) -> str | None:
    if config.dtype == "float16" and card.model_type in WITHOUT_FP16:
        return f"{card.model_type} overflows in float16; use --dtype bfloat16 or float32"
    if config.dtype == "bfloat16" and device.capability is not None and device.capability < (8, 0):
        return "bfloat16 needs compute capability 8.0; use --dtype half"
    if config.dtype == "float32" and card.quantization in _SIXTEEN_BIT_ONLY:
        return f"float32 is not supported with {card.quantization} weights"
    return None
