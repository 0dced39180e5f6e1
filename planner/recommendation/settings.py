"""Settings to try for a checkpoint on a rig: vLLM's defaults, then ever more frugal ones.

Each departure from a default has a reason that is shown with the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from hardware_db import Rig
from model_cards import ModelCard
from model_cards.card import ANY_LENGTH
from planner.engine.attention import attention_backends, backend_problem
from planner.engine.defaults import resolve
from planner.engine.device import Platform, device_facts
from planner.engine.flags import accepts_flag
from planner.engine.releases import Release
from planner.engine_config import EngineConfig
from planner.memory.free_memory import start_margin, taken_at_start
from planner.memory.plan import MemoryPlan
from planner.recommendation.layouts import Layout
from planner.recommendation.leeway import leeway
from planner.recommendation.requirements import Requirements

# Request limits tried in order, where vLLM's own default leaves too little cache.
_SEQUENCE_LIMITS: Final = (64, 16)
_RAISED_UTILIZATION: Final = 0.95
_LARGE_BATCH: Final = 8192  # tokens; vLLM's own default on large GPUs
_SMALLEST_SHARE: Final = 0.1
_START_RISK: Final = 0.02  # chance that less is free at the start than is asked for

Settings = tuple[EngineConfig, dict[str, str]]  # with reasons by field


def usual_settings(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    layout: Layout,
) -> Settings:
    """vLLM's defaults for what is asked, and the reasons of the settings."""
    context = requirements.context_for(card)
    reasons = {"max_model_len": _length_reason(card, requirements, context)}
    if layout.tensor > 1:
        reasons["tensor_parallel_size"] = f"splits every layer over {layout.tensor} GPUs"
    if layout.pipeline > 1:
        reasons["pipeline_parallel_size"] = f"splits the layers into {layout.pipeline} stages"
    if layout.data > 1:
        reasons["data_parallel_size"] = f"{layout.data} replicas share the requests"
    if layout.expert:
        reasons["enable_expert_parallel"] = f"spreads whole experts over all {layout.gpus} GPUs"
    config = EngineConfig(
        tensor_parallel_size=layout.tensor,
        pipeline_parallel_size=layout.pipeline,
        data_parallel_size=layout.data,
        enable_expert_parallel=layout.expert,
        max_model_len=context,
        trust_remote_code=requirements.trust_remote_code,
    )
    if rig.nodes > 1:
        config, spread = _over_nodes(config, rig.nodes, release)
        reasons |= spread
    utilization, why = _free_share(rig, release, layout.tensor)
    if why is not None:
        reasons["gpu_memory_utilization"] = why
        config = replace(config, gpu_memory_utilization=utilization)
    config, at_once = _for_all_at_once(
        card, rig, config, requirements.workload.concurrency, release
    )
    return config, reasons | at_once


def _over_nodes(config: EngineConfig, nodes: int, release: Release) -> Settings:
    """One launch over several machines: older releases need Ray for that, but for replicas.

    With --nnodes vLLM itself counts the replicas of each machine.
    """
    if accepts_flag(release, "--nnodes"):
        why = (
            "start it on each node, with --master-addr ADDRESS --node-rank 0, 1, ... and "
            "--headless on all but the first"
        )
        return replace(config, nnodes=nodes), {"nnodes": why}
    if config.data_parallel_size > 1:
        local = config.data_parallel_size // nodes
        why = (
            f"of these on each node: start it there, with --data-parallel-address ADDRESS, and on "
            f"all but the first --headless --data-parallel-start-rank {local}, {2 * local}, ..."
        )
        return replace(config, data_parallel_size_local=local), {"data_parallel_size_local": why}
    why = f"needs a Ray cluster of {nodes} nodes, started before"
    return (
        replace(config, distributed_executor_backend="ray"),
        {"distributed_executor_backend": why},
    )


def frugal_settings(
    card: ModelCard,
    rig: Rig,
    requirements: Requirements,
    release: Release,
    config: EngineConfig,
    reasons: dict[str, str],
) -> Iterator[Iterator[Settings]]:
    """Ever more frugal settings than `config`.

    Each with the smallest batch first, which tells whether any works, then from the largest down.
    """
    concurrency = requirements.workload.concurrency
    limits: list[int | None] = [None]
    if config.max_num_seqs is None:
        fewer = {limit for limit in (*_SEQUENCE_LIMITS, concurrency) if limit >= concurrency}
        smallest, *rest = sorted(fewer)
        limits = [smallest, None, *reversed(rest)]
    default = float(release.fact("gpu_memory_utilization"))
    raised = (
        config.gpu_memory_utilization is None
        and default < _RAISED_UTILIZATION
        and _surely_free(rig, release, config.tensor_parallel_size, _RAISED_UTILIZATION)
    )

    def batches(given: EngineConfig, why: dict[str, str]) -> Iterator[Settings]:
        for limit in limits:
            if limit is None:
                yield given, why
            else:
                smaller = "a smaller batch, so that its buffers leave room"
                yield replace(given, max_num_seqs=limit), {**why, "max_num_seqs": smaller}

    for kv_dtype in ("auto", "fp8"):
        if kv_dtype == "fp8":
            if not may_use_fp8_kv(card, rig):
                return
            config = replace(config, kv_cache_dtype="fp8")
            reasons = {**reasons, "kv_cache_dtype": "halves the KV cache; 16 bit leaves too little"}
        yield batches(config, reasons)
        if raised:
            yield batches(
                replace(config, gpu_memory_utilization=_RAISED_UTILIZATION),
                {**reasons, "gpu_memory_utilization": "more than the default, to fit"},
            )


def throughput_settings(memory: MemoryPlan, reasons: dict[str, str]) -> Iterator[Settings]:
    """What may bring more tokens a second than a plan: more room for requests, larger batches."""
    given = memory.config.given
    more = {"kv_cache_dtype": "half the bytes of a token: more requests at a time"}
    batch = {"max_num_batched_tokens": "prompts in larger pieces: fewer steps"}
    halves = given.kv_cache_dtype == "auto" and may_use_fp8_kv(memory.card, memory.rig)
    for dtype in ("auto", "fp8") if halves else (given.kv_cache_dtype,):
        why = {**reasons, **(more if dtype != given.kv_cache_dtype else {})}
        config = replace(given, kv_cache_dtype=dtype)
        if dtype != given.kv_cache_dtype:
            yield config, why
        if memory.config.max_num_batched_tokens < _LARGE_BATCH:
            yield replace(config, max_num_batched_tokens=_LARGE_BATCH), {**why, **batch}


def small_batch(memory: MemoryPlan, requirements: Requirements) -> EngineConfig:
    """A plan's settings with a batch whose buffers leave the most room for a long context."""
    seqs = max(min(_SEQUENCE_LIMITS), requirements.workload.concurrency)
    return replace(memory.config.given, max_num_seqs=min(seqs, memory.config.max_num_seqs))


def roomy_axes(memory: MemoryPlan) -> tuple[list[str], list[float]]:
    """KV cache types and shares of the memory that a long context may take, the usual first."""
    given, rig = memory.config.given, memory.rig
    halves = given.kv_cache_dtype == "auto" and may_use_fp8_kv(memory.card, rig)
    dtypes = [given.kv_cache_dtype, *(["fp8"] if halves else [])]
    share = memory.config.gpu_memory_utilization
    shares = [share]
    most = min(_RAISED_UTILIZATION, share + leeway(memory) / memory.device_total.value)
    while (more := round(shares[-1] + 0.01, 2)) <= most and _surely_free(
        rig, memory.release, given.tensor_parallel_size, more
    ):
        shares.append(more)
    return dtypes, shares


def _for_all_at_once(
    card: ModelCard, rig: Rig, config: EngineConfig, concurrency: int, release: Release
) -> Settings:
    """Room in the batch for every request, where vLLM's default limits have less; with reasons."""
    default = resolve(card, device_facts(rig.smallest.gpu), config, release)
    reasons = {}
    if default.max_num_seqs < concurrency:
        config = replace(config, max_num_seqs=concurrency)
        reasons["max_num_seqs"] = "the requests at a time that were asked for"
        if default.max_num_batched_tokens < concurrency:
            config = replace(config, max_num_batched_tokens=concurrency)
            reasons["max_num_batched_tokens"] = "no less than --max-num-seqs"
    return config, reasons


def _length_reason(card: ModelCard, requirements: Requirements, context: int) -> str:
    if requirements.context is not None:
        return "the context asked for"
    if context == card.max_model_len:
        return "all the model has"
    limit = "no limit" if card.max_model_len == ANY_LENGTH else f"up to {card.max_model_len:,}"
    return f"enough for {requirements.use_case}; the model has {limit}"


def _free_share(rig: Rig, release: Release, tensor: int) -> tuple[float, str | None]:
    """vLLM's default share of the memory, or less where that is not surely free at the start."""
    default = float(release.fact("gpu_memory_utilization"))
    if _surely_free(rig, release, tensor, default):
        return default, None
    share = default
    while share > _SMALLEST_SHARE and not _surely_free(rig, release, tensor, share):
        share = round(share - 0.01, 2)
    slot = rig.smallest
    if slot.free_bytes is not None or slot.reserve_bytes:
        return share, "as much as is free"
    return share, "what is surely free beside the driver's own memory"


def _surely_free(rig: Rig, release: Release, tensor: int, share: float) -> bool:
    slot = rig.smallest
    if slot.total_bytes is None:
        return True
    taken = taken_at_start(slot, device_facts(slot.gpu), release, tensor)
    return start_margin(slot, taken, share).chance_below(0) <= _START_RISK


def may_use_fp8_kv(card: ModelCard, rig: Rig) -> bool:
    """Whether an FP8 cache is worth recommending: by the hardware, and nothing else is set."""
    device = device_facts(rig.smallest.gpu)
    if device.platform is not Platform.CUDA or card.kv_cache_dtype is not None:
        return False
    if (device.capability or (0, 0)) < (8, 9):
        return False  # below Ada it is emulated; possible, but never recommended
    backends = attention_backends(card, device, "fp8")
    return backend_problem(card, device, "fp8", backends) is None
