"""What a workload gets of a launch: TPOT, TTFT, tokens per second.

    TPOT = step + prefill of the other requests, shared out over their answers

The physical ceiling, bytes over bandwidth, is given beside it and bounds every band.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot

from planner.engine.device import Platform
from planner.memory.plan import MemoryPlan
from planner.quantity import Basis, Quantity
from planner.speed.constants import speed_constants
from planner.speed.measured import measured_times
from planner.speed.step import StepModel, StepTime, slowest
from planner.workload import Workload

_MOST_OF_A_BAND = 0.9  # no band reaches down to no time at all


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


def predict_speed(memory: MemoryPlan, workload: Workload, *, task: str = "chat") -> SpeedEstimate:
    """Speed of a planned launch; `task` says what its drafts, if it has any, have to guess.

    Raises `MissingFact` where there is no step to time (`StepModel.of`). Where the cache holds
    fewer requests than the workload sends at once, the rest wait: speed is that of those admitted.
    """
    model = StepModel.of(memory)
    admitted = memory.expected_requests_at(workload.total_tokens)
    running = max(1, int(min(workload.concurrency, admitted, memory.config.max_num_seqs)))
    context = workload.prompt_tokens + workload.output_tokens / 2
    step = model.seconds(running, context)
    drafting = _drafting(memory, running, context, task)
    prefill = _prefill_time(memory, model, workload.prompt_tokens)
    others = (running - 1) / workload.output_tokens * prefill if prefill is not None else 0.0
    tpot = step.total / drafting.gain.value + others

    # One user's own request cannot be faster than its weights and cache can be read.
    share, basis = _band(memory, running)
    ceiling = step.ceiling / drafting.most_tokens
    faster, slower = (hypot(share, each) for each in drafting.shares)
    low, high = max(tpot * (1 - min(faster, _MOST_OF_A_BAND)), ceiling), tpot * (1 + slower)
    basis = max(basis, drafting.gain.basis)
    tpot_q = Quantity(tpot, low, high, basis, "step-time model")
    ttft = None
    if prefill is not None:
        ttft = Quantity.within(
            prefill + step.total,
            speed_constants()["bands"]["ttft"],
            Basis.ESTIMATED,
            "zero queue",
        )
    tpot_q, ttft = measured_times(memory, tpot_q, ttft, ceiling)
    per_user = Quantity(
        1 / tpot_q.value, 1 / tpot_q.high, 1 / tpot_q.low, tpot_q.basis, tpot_q.source
    )
    return SpeedEstimate(
        workload=workload,
        tpot=tpot_q,
        ttft=ttft,
        per_user=per_user,
        total=per_user.times(running),
        ceiling_per_user=1 / ceiling,
        bound_by=_bound_by(step, others),
        admitted=admitted,
        notes=(*_notes(workload, running, prefill), *drafting.notes),
    )


@dataclass(frozen=True, slots=True)
class _Drafting:
    """What speculative decoding does to a launch's steps; nothing without."""

    gain: Quantity = field(default_factory=lambda: Quantity.exact(1.0))
    most_tokens: int = 1  # that one step can emit for a request
    notes: tuple[str, ...] = ()

    @property
    def shares(self) -> tuple[float, float]:
        """How far the band of the gain reaches in the time of a token, down and up."""
        return 1 - self.gain.value / self.gain.high, self.gain.value / self.gain.low - 1


def _drafting(memory: MemoryPlan, running: int, context: float, task: str) -> _Drafting:
    if memory.config.speculation is None:
        return _Drafting()
    from planner.speed.speculative import SpeculativeModel, acceptance_for  # few launches need it

    tokens = memory.config.speculation.num_speculative_tokens
    expected = acceptance_for(memory, task)
    gain = SpeculativeModel.of(memory).gain(running, context, tokens, expected)
    note = (
        f"{memory.config.speculation.method} with {tokens} tokens drafted a step is "
        f"{gain.value:.2f} [{gain.low:.2f}-{gain.high:.2f}] times as fast as no drafts, on {task}"
    )
    return _Drafting(gain, 1 + tokens, (note,))


def _bound_by(step: StepTime, others: float) -> str:
    computing = step.compute > step.weights
    times = {
        "reading weights": 0.0 if computing else step.weights,
        "compute": step.compute if computing else 0.0,
        "reading the KV cache": step.kv,
        "fixed time per layer": step.fixed,
        "communication": step.communication,
        "prefill of other requests": others,
    }
    return max(times, key=lambda name: times[name])


def _prefill_time(memory: MemoryPlan, model: StepModel, prompt: int) -> float | None:
    """Time to process one prompt alone: operations over the efficient peak, chunk by chunk."""
    if model.peak is None:
        return None
    card, config = memory.card, memory.config
    ranks = config.given.tensor_parallel_size
    head = (card.lm_head or card.embedding).elements  # runs for the last token only
    flops = 2 * (card.active_parameters - head) * prompt
    for attention in card.attention_layers:
        span = prompt if attention.window is None else min(prompt, attention.window)
        # q x k and p x v over half the square (causal).
        flops += 2 * attention.num_heads * attention.head_size * prompt * span
    chunks = -(-prompt // config.max_num_batched_tokens)
    compute: float = model.compute_seconds(flops / ranks)
    communication: float = model.communication_seconds(prompt)
    return compute + chunks * model.fixed + communication


def _band(memory: MemoryPlan, running: int) -> tuple[float, Basis]:
    """Half-width of the band as a share of the value, and the basis."""
    constants = speed_constants()
    bands = constants["bands"]
    slot = slowest(memory.rig)
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


def _notes(workload: Workload, running: int, prefill: float | None) -> tuple[str, ...]:
    notes = []
    if running < workload.concurrency:
        notes.append(
            f"only {running} of {workload.concurrency} requests run at once; the rest wait"
        )
    if prefill is None:
        notes.append("compute rate not known: no time to first token, no compute limit")
    return tuple(notes)
