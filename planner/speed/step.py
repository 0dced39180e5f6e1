"""How long a step takes, and what follows for a user: TPOT, TTFT, tokens per second.

An analytic model that anyone can check (constants and their source in data/constants.json):

    step = max(weights / (eta x bandwidth), operations / (efficiency x peak))
         + cache / (eta_kv x bandwidth) + layers x fixed + all-reduces
    TPOT = step + prefill of the other requests, shared out over their answers

The physical ceiling, bytes over bandwidth, is given beside it and bounds every band.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path
from typing import Any

from hardware_db import Device, Rig
from planner.engine.device import Platform
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.quantity import Basis, Quantity
from planner.speed.traffic import decode_traffic
from planner.workload import Workload


class MissingFact(PlanError):
    """A fact of the hardware without which there is no speed to predict."""


@dataclass(frozen=True, slots=True)
class SpeedEstimate:
    """Speed of a launch under a workload. Times in seconds, rates in tokens per second."""

    workload: Workload
    tpot: Quantity
    ttft: Quantity | None  # zero queue; None where the compute rate is not known
    per_user: Quantity
    total: Quantity
    ceiling_per_user: float  # bytes over bandwidth: no step can be faster
    bound_by: str  # what takes most of a step
    admitted: float  # requests of this length that the cache holds at once
    notes: tuple[str, ...]


@cache
def _constants() -> dict[str, Any]:
    path = Path(__file__).parent / "data" / "constants.json"
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


def predict_speed(memory: MemoryPlan, workload: Workload) -> SpeedEstimate:
    """Speed of a planned launch.

    Raises `MissingFact` for a GPU whose bandwidth is not known, for models that pool or listen, and
    for weights in host memory: how fast a GPU reads those was not measured. Where the cache holds
    fewer requests than the workload sends at once, the rest wait: speed is that of those admitted.
    """
    constants = _constants()
    slot = _slowest(memory.rig)
    bandwidth = slot.gpu.bandwidth_gbs
    if bandwidth is None:
        raise MissingFact(f"memory bandwidth of {slot.gpu.name} is not known: no speed")
    if any(rank.parts.offloaded for rank in memory.ranks):
        raise MissingFact("speed with weights in host memory was not measured: no speed")
    if memory.config.speculation is not None:
        raise MissingFact("speed with speculative decoding is not modelled yet: no speed")
    if memory.config.pooling:
        raise MissingFact("a pooling model writes no tokens: no speed")
    if memory.card.has_cross_attention:
        raise MissingFact("speed with an audio encoder was not measured: no speed")
    bandwidth *= 1e9
    admitted = memory.expected_requests_at(workload.total_tokens)
    running = max(1, int(min(workload.concurrency, admitted, memory.config.max_num_seqs)))
    context = workload.prompt_tokens + workload.output_tokens / 2
    traffic = decode_traffic(memory, running, context, constants["expert_draw_exponent"])

    efficiency = _weight_efficiency(memory)
    weights_time = traffic.weight_bytes / (efficiency * bandwidth)
    compute_time = _compute_time(memory, slot, traffic.flops)
    kv_time = traffic.kv_bytes / (constants["kv_efficiency"] * bandwidth)
    fixed_time = _fixed_time(memory)
    link_time = _link_time(memory, running)
    matrix_time = max(weights_time, compute_time or 0.0)
    step = matrix_time + kv_time + fixed_time + link_time
    prefill = _prefill_time(memory, slot, workload.prompt_tokens)
    others = (running - 1) / workload.output_tokens * prefill if prefill is not None else 0.0
    tpot = step + others

    # One user's own request cannot be faster than its weights and cache can be read.
    ceiling = bandwidth / (traffic.weight_bytes + traffic.kv_bytes)
    share, basis = _band(memory, slot, running)
    low, high = max(tpot * (1 - share), 1 / ceiling), tpot * (1 + share)
    tpot_q = Quantity(tpot, low, high, basis, "step-time model")
    per_user = Quantity(1 / tpot, 1 / high, 1 / low, basis, "step-time model")
    times = {
        "reading weights": weights_time if weights_time >= (compute_time or 0) else 0.0,
        "compute": (compute_time or 0.0) if (compute_time or 0) > weights_time else 0.0,
        "reading the KV cache": kv_time,
        "fixed time per layer": fixed_time,
        "communication": link_time,
        "prefill of other requests": others,
    }
    ttft = None
    if prefill is not None:
        ttft = Quantity.within(
            prefill + step, constants["bands"]["ttft"], Basis.ESTIMATED, "zero queue"
        )
    return SpeedEstimate(
        workload=workload,
        tpot=tpot_q,
        ttft=ttft,
        per_user=per_user,
        total=per_user.times(running),
        ceiling_per_user=ceiling,
        bound_by=max(times, key=lambda name: times[name]),
        admitted=admitted,
        notes=_notes(memory, workload, running, prefill),
    )


def _slowest(rig: Rig) -> Device:
    """Every rank waits for the device with the least bandwidth."""
    return min(rig.devices, key=lambda slot: slot.gpu.bandwidth_gbs or 0.0)


def _weight_efficiency(memory: MemoryPlan) -> float:
    """Achieved share of peak bandwidth while reading weights, by format."""
    constants = _constants()
    by_kind: dict[str, float] = constants["weight_efficiency"]
    efficiency = by_kind.get(memory.card.format_kind, by_kind["int4"])
    if memory.card.is_moe:
        efficiency *= constants["moe_efficiency_factor"]
    return efficiency


def _peak_flops(memory: MemoryPlan, slot: Device) -> float | None:
    """Dense FLOP/s of the format's kernels on this GPU; weight-only formats compute in 16 bit."""
    rates, capability = slot.gpu.rates, slot.gpu.compute_capability or (0, 0)
    if rates is None:
        return None
    dtype = "fp16" if memory.config.dtype == "float16" else "bf16"
    match memory.card.format_kind:
        case "fp8" if capability >= (8, 9):
            dtype = "fp8"
        case "w8a8":
            dtype = "int8"
        case "nvfp4" if capability >= (10, 0):
            dtype = "fp4"
    rate = rates.matmul(dtype) or rates.matmul("bf16") or rates.matmul("fp16")
    return rate * 1e12 if rate is not None else None


def _compute_time(memory: MemoryPlan, slot: Device, flops: float) -> float | None:
    peak = _peak_flops(memory, slot)
    if peak is None:
        return None
    return flops / (float(_constants()["compute_efficiency"]) * peak)


def _fixed_time(memory: MemoryPlan) -> float:
    """Launches and small kernels of every layer, which no batch makes cheaper."""
    constants = _constants()
    per_layer: float = constants["layer_seconds"]
    if memory.card.is_moe:
        per_layer += constants["moe_layer_seconds"]
    if not memory.config.cudagraph_sizes:
        per_layer += constants["eager_layer_seconds"]
    return memory.card.num_layers * per_layer


def _link_time(memory: MemoryPlan, tokens: int) -> float:
    """Two all-reduces a layer under tensor parallelism, hand-overs between pipeline stages."""
    constants = _constants()
    config, card = memory.config.given, memory.card
    ranks, stages = config.tensor_parallel_size, config.pipeline_parallel_size
    message = tokens * card.hidden_size * memory.config.dtype_bytes
    link = "nvlink" if memory.rig.link.kind == "nvlink" else "pcie"
    seconds = 0.0
    if ranks > 1:
        growth = 1 + constants["all_reduce_growth_per_doubling"] * log2(ranks / 2)
        once = constants["all_reduce_seconds"][link] * growth
        once += message / (constants["all_reduce_gbs"][link] * 1e9)
        seconds += 2 * card.num_layers * once
    if stages > 1:
        across = memory.rig.nodes > 1
        gbs = constants["network_gbs"] if across else constants["all_reduce_gbs"][link]
        start = constants["network_seconds"] if across else constants["all_reduce_seconds"][link]
        seconds += (stages - 1) * (start + 2 * message / (gbs * 1e9))
    return seconds


def _prefill_time(memory: MemoryPlan, slot: Device, prompt: int) -> float | None:
    """Time to process one prompt alone: operations over the efficient peak, chunk by chunk."""
    peak = _peak_flops(memory, slot)
    if peak is None:
        return None
    constants = _constants()
    card, config = memory.card, memory.config
    ranks = config.given.tensor_parallel_size
    head = (card.lm_head or card.embedding).elements  # runs for the last token only
    flops = 2 * (card.active_parameters - head) * prompt
    for attention in card.attention_layers:
        span = prompt if attention.window is None else min(prompt, attention.window)
        # q x k and p x v over half the square (causal).
        flops += 2 * attention.num_heads * attention.head_size * prompt * span
    chunks = -(-prompt // config.max_num_batched_tokens)
    compute: float = flops / ranks / (constants["compute_efficiency"] * peak)
    return compute + chunks * _fixed_time(memory) + _link_time(memory, prompt)


def _band(memory: MemoryPlan, slot: Device, running: int) -> tuple[float, Basis]:
    """Half-width of the band as a share of the value, and the basis."""
    constants = _constants()
    bands = constants["bands"]
    share = bands["dense_batch_1"] if running == 1 else bands["dense"]
    if memory.card.is_moe:
        share = max(share, bands["moe"])
    if running > 64:
        share = max(share, bands["concurrency_over_64"])
    elif running > 16:
        share = max(share, bands["concurrency_over_16"])
    listed = [tuple(item) for item in constants["listed_capabilities"]]
    known = (
        memory.device.platform is Platform.CUDA
        and slot.gpu.vendor == "nvidia"
        and slot.gpu.compute_capability in listed
    )
    basis = Basis.CALIBRATED if known and memory.card.exact else Basis.ESTIMATED
    if not known:
        share = max(share, bands["unlisted_device"])
    if not memory.config.cudagraph_sizes:
        share = max(share, bands["eager"])
    return share, basis


def _notes(
    memory: MemoryPlan, workload: Workload, running: int, prefill: float | None
) -> tuple[str, ...]:
    notes = []
    if running < workload.concurrency:
        notes.append(
            f"only {running} of {workload.concurrency} requests run at once; the rest wait"
        )
    if prefill is None:
        notes.append("compute rate not known: no time to first token, no compute limit")
    return tuple(notes)
