"""What a command asks for that this GPU or model makes idle or harmful."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.command.parse import ServeCommand
from planner.engine.device import Platform
from planner.findings import Finding, Severity
from planner.memory.plan import MemoryPlan

# Lowest compute capability that computes in the format; below, weights are unpacked to 16 bit.
_COMPUTES: Final = {"fp8": (8, 9), "nvfp4": (10, 0), "mxfp4": (10, 0)}
_FP8_CACHE: Final = (8, 9)
_HALF_ONLY: Final = (8, 0)


def wasted(command: ServeCommand, memory: MemoryPlan) -> Iterator[Finding]:
    """Findings about settings that do less than they say, or the opposite."""
    yield from _formats(memory)
    yield from _idle_parallelism(command, memory)
    yield from _graph_sizes(command, memory)
    if command.random_benchmark and memory.config.speculation is not None:
        text = "random tokens cannot be drafted: a benchmark with them shows no gain, but a loss"
        fix = (
            "send real text (--dataset-name sharegpt), or accept drafts at a set rate "
            '(--speculative-config with "rejection_sample_method": "synthetic")'
        )
        yield Finding("random_benchmark", Severity.WARNING, text, fix)


def _formats(memory: MemoryPlan) -> Iterator[Finding]:
    """Number formats that the GPU has no units for."""
    card, device, config = memory.card, memory.device, memory.config
    if device.platform is not Platform.CUDA or device.capability is None:
        return
    has = f"compute capability {device.capability[0]}.{device.capability[1]}"
    needed = _COMPUTES.get(card.format_kind)
    if needed is not None and device.capability < needed:
        name = card.format_kind.upper()
        text = (
            f"{has} computes nothing in {name} (that takes {needed[0]}.{needed[1]}): the weights "
            "are unpacked to 16 bit in every step; they save memory, not arithmetic"
        )
        yield Finding("weight_only", Severity.INFO, text)
    if config.kv_cache_dtype.startswith("fp8") and device.capability < _FP8_CACHE:
        text = (
            f"{has} has no FP8 units: an fp8 KV cache is converted in every step; it saves memory"
        )
        yield Finding("emulated_kv_cache", Severity.INFO, text + ", and costs time")
    lost = card.dtype == "bfloat16" and config.dtype == "float16"
    if lost and device.capability < _HALF_ONLY:
        text = f"{has} has no bfloat16: the model runs in float16, whose range is smaller"
        yield Finding("no_bfloat16", Severity.WARNING, text, "watch for answers that overflow")


def _idle_parallelism(command: ServeCommand, memory: MemoryPlan) -> Iterator[Finding]:
    config = memory.config.given
    ranks = config.tensor_parallel_size * config.data_parallel_size
    if config.enable_expert_parallel and ranks == 1 and memory.card.is_moe:
        text = "--enable-expert-parallel has nothing to spread: there is one rank"
        yield Finding("useless_option", Severity.WARNING, text, "leave it out")
    asked = {each.name for each in command.given}
    if "--disable-custom-all-reduce" in asked and config.tensor_parallel_size == 1:
        text = "--disable-custom-all-reduce has no effect: nothing is reduced over one GPU"
        yield Finding("useless_option", Severity.INFO, text, "leave it out")


def _graph_sizes(command: ServeCommand, memory: MemoryPlan) -> Iterator[Finding]:
    """Sizes of CUDA graphs are tokens; with drafts every request brings several."""
    speculation, sizes = memory.config.speculation, command.graph_sizes
    if speculation is None or not sizes or memory.config.given.enforce_eager:
        return
    needed = memory.config.max_num_seqs * speculation.query_len
    if max(sizes) >= needed or max(sizes) > memory.config.max_num_seqs:
        return
    requests = max(sizes) // speculation.query_len
    text = (
        f"CUDA graphs up to {max(sizes)} tokens hold {requests} requests of "
        f"{speculation.query_len} tokens a step: larger batches run without graphs, far slower"
    )
    fix = f"sizes are tokens, not requests: --max-cudagraph-capture-size {needed}"
    yield Finding("graphs_in_sequences", Severity.WARNING, text, fix)
