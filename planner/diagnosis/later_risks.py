"""What vLLM's checks at start-up do not see, and what takes so much that a lever is worth naming.

Each is a finding with its size. What the budget already holds is said with the option that makes it
smaller; what comes on top of it, with what is left beside the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.engine.defaults import ResolvedConfig
from planner.engine.device import Platform
from planner.findings import Finding, Severity
from planner.memory.constants import GIB
from planner.memory.host_memory import host_bytes
from planner.memory.plan import MemoryPlan
from planner.memory.unprofiled import unprofiled

# A pass that takes more than this share of the device has a lever worth naming.
_LARGE: Final = 0.05
_SMALLEST_BATCH: Final = 1024  # smaller ones slow prompts down
# Of the host's memory; the rest is the system's and the server's own.
_PINNABLE: Final = 0.8


def later_risks(memory: MemoryPlan) -> Iterator[Finding]:
    """Findings about memory beyond the start, on a GPU that a plan could be made for."""
    if memory.device.platform is Platform.CPU or memory.config.pooling:
        return
    yield from _host(memory)
    yield from _given_cache(memory)
    yield from _beside_budget(memory)
    yield from _large_pass(memory)


def _host(memory: MemoryPlan) -> Iterator[Finding]:
    """Weights and tables in host memory are pinned: they cannot be swapped out."""
    needed, there = host_bytes(memory), memory.rig.host_memory_bytes
    if not needed:
        return
    text = f"{needed / GIB:.1f} GiB of weights and tables are pinned in host memory"
    if there is None:
        yield Finding("host_memory", Severity.INFO, text)
    elif needed > _PINNABLE * there:
        severity = Severity.ERROR if needed > there else Severity.WARNING
        text += f"; the machine has {there / GIB:.1f} GiB"
        yield Finding("host_memory", severity, text, _less_pinned(memory))


def _less_pinned(memory: MemoryPlan) -> str:
    """The option by which weights are pinned; a model's own tables always are."""
    if not any(rank.parts.offloaded for rank in memory.ranks):
        return "a machine with more memory: the tables of the model are always there"
    grouped = memory.config.given.offload_group_size
    return "a larger --offload-group-size" if grouped else "a smaller --cpu-offload-gb"


def _given_cache(memory: MemoryPlan) -> Iterator[Finding]:
    """A KV cache whose size is given may leave too little for what a batch takes beside it."""
    if memory.given_size_check is None:
        return
    left = memory.given_size_check.margin.value
    peak = max(rank.activation.value for rank in memory.ranks)
    if left < 0 or peak <= left:
        return
    yield Finding(
        "cache_size",
        Severity.WARNING,
        f"{left / GIB:.2f} GiB are left beside the model and a KV cache of the size that is given, "
        f"and a full batch takes {peak / GIB:.2f} GiB: it may run out of memory under load",
        "a smaller KV cache, or a smaller --max-num-batched-tokens",
    )


def _beside_budget(memory: MemoryPlan) -> Iterator[Finding]:
    """Work that vLLM does not profile, where there is no room for it."""
    config = memory.config
    rows = min(config.max_num_seqs, config.max_num_batched_tokens)
    for each in unprofiled(memory):
        if each.missing <= 0:
            continue
        size, needed = f"{each.size / GIB:.2f} GiB", f"{each.needed / GIB:.2f} GiB"
        left = f"{max(0.0, each.left) / GIB:.2f} GiB"
        match each.kind:
            case "graph_capture":
                text = (
                    f"CUDA graphs take some {size} outside the budget, up to {needed}, and {left} "
                    "are left there: capturing them may run out of memory"
                )
                fix = "a smaller --gpu-memory-utilization, or fewer sizes (--max-num-seqs)"
                yield Finding("graph_capture", Severity.WARNING, text, fix)
            case "sampler_peak":
                text = (
                    f"sampling {rows} requests at once takes {size}, {needed} more than vLLM "
                    "profiles in this release: it may run out of memory under load"
                )
                fix = f"--max-num-seqs {max(1, rows // 2)} halves it"
                yield Finding("sampler_peak", Severity.WARNING, text, fix)
            case _:
                text = (
                    f"reading long prompts takes recurrent layers some {size} that vLLM does not "
                    f"profile (estimated from one launch); {left} are left beside the budget"
                )
                yield Finding("prefill_peak", Severity.WARNING, text, _half_batch(config))


def _large_pass(memory: MemoryPlan) -> Iterator[Finding]:
    """The option that makes the largest pass of the profile run smaller."""
    rank = max(memory.ranks, key=lambda each: each.activation.value)
    peak, config = rank.activation, memory.config
    if peak.value <= _LARGE * memory.device_total.value:
        return
    size = f"{peak.value / GIB:.2f} GiB"
    fix: str | None
    if peak.source.startswith("sampler"):
        text = f"the sampler's pass takes {size}: max_num_seqs ({config.max_num_seqs}) x vocabulary"
        fix = f"--max-num-seqs {max(1, config.max_num_seqs // 2)} halves it"
    elif peak.source.startswith("encoder"):
        text = f"profiling the vision encoder takes {size}: max_num_batched_tokens of images"
        fix = "--max-num-batched-tokens, or --language-model-only where no images are sent"
    else:
        text = f"activations take {size}: max_num_batched_tokens ({config.max_num_batched_tokens})"
        fix = _half_batch(config)
    yield Finding("large_pass", Severity.INFO, text, fix)


def _half_batch(config: ResolvedConfig) -> str | None:
    """The option for half of a pass, as far as vLLM takes it."""
    least = max(_SMALLEST_BATCH, config.max_num_seqs)
    if not config.chunked_prefill:
        least = max(least, config.max_model_len)
    half = max(least, config.max_num_batched_tokens // 2)
    if half >= config.max_num_batched_tokens:
        return None
    exactly = "halves it" if 2 * half == config.max_num_batched_tokens else "makes it smaller"
    return f"--max-num-batched-tokens {half} {exactly}"
