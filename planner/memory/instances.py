"""Several launches on the same GPUs, started one after the other.

vLLM sizes each by its own share of the device (gpu_memory_utilization) and counts only what it
allocates itself; what earlier ones hold matters to the check of free memory at its start
(v1/worker/gpu_worker.py, from 0.9.1 on).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hardware_db import Rig
from planner.engine.device import Platform
from planner.memory.free_memory import context, free_at_start, taken_at_start
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity, total


def held(memory: MemoryPlan) -> Quantity:
    """Bytes that a launch holds of each of its devices while it serves.

    Its budget, the CUDA graphs where they are not part of it, and the context outside it. The
    activation peak belongs to the budget: a batch may need it at any time.
    """
    rank = memory.tightest
    pool = rank.kv_cache if memory.kv_cache.groups else Quantity.exact(0)
    parts = [rank.weights, Quantity.exact(rank.buffers.total), rank.activation, rank.non_torch]
    if memory.device.platform is Platform.CPU:
        return total([*parts, pool])
    ranks = memory.config.given.tensor_parallel_size
    outside = [context(memory.release, ranks, memory.rig.smallest.gpu.slug)]
    if not rank.graphs_counted:
        outside.append(rank.cuda_graphs)
    if memory.config.kv_cache_memory_bytes is None and memory.kv_cache.groups:
        return total([memory.requested, *outside])  # the pool takes what the rest leaves
    return total([*parts, rank.cuda_graphs, pool, outside[0]])


def beside(rig: Rig, running: Sequence[MemoryPlan]) -> Rig:
    """The rig with what launches that run already hold kept for them, at most."""
    taken = sum(int(held(memory).high) for memory in running)
    devices = tuple(
        replace(device, reserve_bytes=device.reserve_bytes + taken) for device in rig.devices
    )
    return replace(rig, devices=devices)


def needed_share(memory: MemoryPlan) -> float:
    """The least utilization that surely holds one request of full length beside the rest."""
    rank = memory.tightest
    spent = [rank.weights, Quantity.exact(rank.buffers.total), rank.activation, rank.non_torch]
    if rank.graphs_counted:
        spent.append(rank.cuda_graphs)
    return (total(spent).high + memory.kv_cache.needed_bytes) / memory.device_total.low


def shared_out(plans: Sequence[MemoryPlan]) -> tuple[float, ...] | None:
    """Utilizations, in hundredths, with which all of them start one after the other.

    Each gets what it needs for one request of full length, and the rest of the device in equal
    parts. None where they do not fit, or where one does not go by its utilization.
    """
    first = plans[0]
    if any(memory.config.kv_cache_memory_bytes is not None for memory in plans):
        return None
    slot, ranks = first.rig.smallest, first.config.given.tensor_parallel_size
    free = free_at_start(slot, taken_at_start(slot, first.device, first.release, ranks)).low
    outside = [held(memory).high - memory.requested.high for memory in plans]
    outside[0] -= context(first.release, ranks, slot.gpu.slug).high  # it is taken off `free`
    device = first.device_total.high
    needs = [needed_share(memory) for memory in plans]
    spare = ((free - sum(outside)) / device - sum(needs)) / len(plans)
    shares = tuple(int(100 * (need + spare)) / 100 for need in needs)
    return shares if spare >= 0 and min(shares) > 0 else None
