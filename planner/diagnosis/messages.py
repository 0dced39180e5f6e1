"""The lines that vLLM itself prints where it refuses for want of memory."""

from __future__ import annotations

from planner.engine.device import Platform
from planner.engine.refusal import RefusalKind
from planner.memory.constants import GIB
from planner.memory.plan import MemoryPlan

_ONE_MODEL_SINCE = "0.25.0"  # "the models's max seq len" before


def own_message(memory: MemoryPlan) -> str | None:
    """What vLLM would print, as far as the plan's expected figures go; None if it starts."""
    refusal, kv = memory.starts.refusal, memory.kv_cache
    if refusal is None:
        return None
    if refusal.kind is RefusalKind.FREE_MEMORY:
        return _too_little_free(memory)
    if refusal.kind is RefusalKind.STATE_BLOCKS:
        return (
            f"max_num_seqs ({memory.config.max_num_seqs}) exceeds available Mamba cache blocks "
            f"({kv.num_blocks})."
        )
    if refusal.kind is not RefusalKind.KV_ROOM:
        return None
    available = memory.tightest.kv_cache.value
    if available <= 0:
        return "No available memory for the cache blocks."
    whose = "model's" if memory.release.at_least(_ONE_MODEL_SINCE) else "models's"
    estimated = (
        f" Based on the available memory, the estimated maximum model length is {kv.longest_len}."
        if kv.longest_len
        else ""
    )
    return (
        f"To serve at least one request with the {whose} max seq len ({kv.max_model_len}), "
        f"({kv.needed_bytes / GIB:.2f} GiB KV cache is needed, which is larger than the available "
        f"KV cache memory ({available / GIB:.2f} GiB).{estimated}"
    )


def _too_little_free(memory: MemoryPlan) -> str | None:
    start, on_cpu = memory.start, memory.device.platform is Platform.CPU
    if start.asked != memory.requested:  # no check of vLLM's: an allocation fails
        return None if on_cpu else "torch.OutOfMemoryError: CUDA out of memory."
    what = "Available memory on node 0" if on_cpu else "Free memory on device cuda:0"
    kind = "CPU" if on_cpu else "GPU"
    return (
        f"{what} ({max(0, start.free.value) / GIB:.2f}/{memory.device_total.value / GIB:.2f} GiB) "
        f"on startup is less than desired {kind} memory utilization "
        f"({memory.config.gpu_memory_utilization:g}, {start.asked.value / GIB:.2f} GiB)."
    )
