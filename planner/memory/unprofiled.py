"""What a launch takes beside its budget, where neither vLLM's profile run nor its checks look."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from planner.engine.device import Platform
from planner.memory.activation import sampler_pass
from planner.memory.constants import constant
from planner.memory.free_memory import context
from planner.memory.plan import MemoryPlan


class Unprofiled(Struct, frozen=True):
    """Memory of a device, in bytes, that one kind of work takes beside the budget.

    `kind` is "graph_capture", "sampler_peak" or "prefill_peak". `size` is what the work takes in
    all, `needed` what of it, at most, lies beside the budget, where there is `left`.
    """

    kind: str
    size: float
    needed: float
    left: float

    @property
    def missing(self) -> float:
        """Bytes that are needed and not left; negative where there is room."""
        return self.needed - self.left


def unprofiled(memory: MemoryPlan) -> Iterator[Unprofiled]:
    """What a plan on a GPU leaves out of its budget because vLLM does."""
    if memory.device.platform is Platform.CPU or memory.config.pooling:
        return
    left = _beside_budget(memory)
    yield from _capture(memory, left)
    yield from _sampling(memory, left)
    yield from _recurrent_prefill(memory, left)


def _beside_budget(memory: MemoryPlan) -> float:
    """Bytes of the device that neither the budget nor vLLM's own context takes."""
    if memory.given_size_check is not None:
        peak = max(rank.activation.value for rank in memory.ranks)
        return memory.given_size_check.margin.value - peak
    ranks = memory.config.given.tensor_parallel_size
    left = memory.device_total.value - memory.requested.value
    slot = memory.rig.smallest
    return left - context(memory.release, ranks, slot.gpu.slug).value - slot.reserve_bytes


def _capture(memory: MemoryPlan, left: float) -> Iterator[Unprofiled]:
    """Before 0.20.0 CUDA graphs come out of what is not requested."""
    graphs = memory.ranks[-1].cuda_graphs
    if memory.tightest.graphs_counted or memory.given_size_check is not None:
        return
    if graphs.value:
        yield Unprofiled("graph_capture", graphs.value, graphs.high, left)


def _sampling(memory: MemoryPlan, left: float) -> Iterator[Unprofiled]:
    """Model Runner V2 profiled a greedy sampler before 0.33.0; sampling with top-p takes more."""
    config, release, rank = memory.config, memory.release, memory.ranks[-1]
    if not config.model_runner_v2:
        return
    profiled = constant("sampler_bytes_per_logit_v2", release)
    whole = constant("sampler_bytes_per_logit", release)
    if profiled.value >= whole.value / 2:
        return
    rows = min(config.max_num_seqs, config.max_num_batched_tokens)
    greedy = sampler_pass(memory.card, config, memory.device, release)
    peak = greedy.value + (whole.value - profiled.value) * rows * memory.card.vocab_size
    more = peak - rank.activation.value
    if more > 0:
        yield Unprofiled("sampler_peak", peak, more, left)


def _recurrent_prefill(memory: MemoryPlan, left: float) -> Iterator[Unprofiled]:
    """The profile run skips what recurrent layers need to read a long prompt."""
    if not memory.card.states:
        return
    config = memory.config
    features = memory.card.hidden_size / config.given.tensor_parallel_size
    each = constant("recurrent_prefill_bytes", memory.release)
    size = each.value * config.max_num_batched_tokens * features
    yield Unprofiled("prefill_peak", size, size, left)
