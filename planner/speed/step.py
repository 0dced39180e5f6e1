"""How long one step of the engine takes.

An analytic model that anyone can check (constants and their source in data/constants.json):

    step = max(weights / (eta x bandwidth), operations / (efficiency x peak))
         + cache / (eta_kv x bandwidth) + layers x fixed + all-reduces

Batch, context and tokens may be numbers or numpy arrays that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from hardware_db import Device, Rig
from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.speed.amounts import Amount, larger
from planner.speed.constants import speed_constants
from planner.speed.demand import StepDemand


class MissingFact(PlanError):
    """A fact of the hardware without which there is no speed to predict."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step, by what takes them; arrays where arrays were asked for.

    The weights are read while the matrices are computed: the longer of the two counts.
    """

    weights: Amount
    compute: Amount  # 0 where the compute rate is not known
    kv: Amount
    fixed: Amount
    communication: Amount
    ceiling: Amount  # bytes over bandwidth: no step is shorter

    @property
    def total(self) -> Amount:
        """Seconds of the step."""
        matrices = larger(self.weights, self.compute)
        return matrices + self.kv + self.fixed + self.communication


@dataclass(frozen=True, slots=True)
class StepModel:
    """The steps of a planned launch: what they ask of a rank, and how fast that one is."""

    demand: StepDemand
    bandwidth: float  # bytes per second, as the datasheet says
    peak: float | None  # operations per second of the format's kernels; None: not known
    weight_efficiency: float  # achieved share of the bandwidth, reading weights
    fixed: float  # launches and small kernels of all layers, which no batch makes cheaper
    collective_start: float  # seconds of all collectives of a step, whatever their size
    collective_per_token: float  # and more for every token

    @classmethod
    def of(cls, memory: MemoryPlan) -> StepModel:
        """The steps of a plan, without those of its draft.

        Raises `MissingFact` for a GPU whose bandwidth is not known, for models that pool or listen,
        and for weights in host memory: how fast a GPU reads those was not measured.
        """
        slot = slowest(memory.rig)
        if slot.gpu.bandwidth_gbs is None:
            raise MissingFact(f"memory bandwidth of {slot.gpu.name} is not known: no speed")
        if any(rank.parts.offloaded for rank in memory.ranks):
            raise MissingFact("speed with weights in host memory was not measured: no speed")
        if memory.config.pooling:
            raise MissingFact("a pooling model writes no tokens: no speed")
        if memory.card.has_cross_attention:
            raise MissingFact("speed with an audio encoder was not measured: no speed")
        start, per_token = _communication(memory)
        return cls(
            demand=StepDemand.of(memory),
            bandwidth=slot.gpu.bandwidth_gbs * 1e9,
            peak=_peak_flops(memory, slot),
            weight_efficiency=_weight_efficiency(memory),
            fixed=_fixed_time(memory),
            collective_start=start,
            collective_per_token=per_token,
        )

    def seconds(self, batch: Amount, context: Amount, query_tokens: Amount = 1) -> StepTime:
        """A decode step of `batch` requests of mean length `context` on each replica.

        Each request brings `query_tokens` tokens (more than one where drafts are verified): all of
        them draw experts and are computed, and the cache is read once for each request.
        """
        constants = speed_constants()
        tokens = batch * query_tokens
        weights = self.demand.weight_bytes(tokens, constants["expert_draw_exponent"])
        cached = self.demand.cache_bytes(batch, context)
        return StepTime(
            weights=weights / (self.weight_efficiency * self.bandwidth),
            compute=self.compute_seconds(tokens * self.demand.flops_per_token),
            kv=cached / (constants["kv_efficiency"] * self.bandwidth),
            fixed=self.fixed,
            communication=self.communication_seconds(tokens),
            ceiling=(weights + cached) / self.bandwidth,
        )

    def weight_seconds(self, tokens: Amount) -> Amount:
        """Seconds of reading the weights that a step of so many tokens needs."""
        read = self.demand.weight_bytes(tokens, speed_constants()["expert_draw_exponent"])
        return read / (self.weight_efficiency * self.bandwidth)

    def compute_seconds(self, flops: Amount) -> Amount:
        """Seconds of operations of one rank; 0 where the compute rate is not known."""
        if self.peak is None:
            return 0.0 * flops
        return flops / (speed_constants()["compute_efficiency"] * self.peak)

    def communication_seconds(self, tokens: Amount) -> Amount:
        """Seconds of the collectives of a step with so many tokens."""
        return self.collective_start + self.collective_per_token * tokens


def slowest(rig: Rig) -> Device:
    """Every rank waits for the device with the least bandwidth."""
    return min(rig.devices, key=lambda slot: slot.gpu.bandwidth_gbs or 0.0)


def _weight_efficiency(memory: MemoryPlan) -> float:
    """Achieved share of peak bandwidth while reading weights, by format."""
    constants = speed_constants()
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


def _fixed_time(memory: MemoryPlan) -> float:
    """Launches and small kernels of every layer, which no batch makes cheaper."""
    constants = speed_constants()
    per_layer: float = constants["layer_seconds"]
    if memory.card.is_moe:
        per_layer += constants["moe_layer_seconds"]
    if not memory.config.cudagraph_sizes:
        per_layer += constants["eager_layer_seconds"]
    return memory.card.num_layers * per_layer


def _communication(memory: MemoryPlan) -> tuple[float, float]:
    """Seconds of a step's collectives: whatever their size, and for every token.

    Two all-reduces a layer under tensor parallelism, hand-overs between pipeline stages.
    """
    constants = speed_constants()
    config, card = memory.config.given, memory.card
    ranks, stages = config.tensor_parallel_size, config.pipeline_parallel_size
    token = card.hidden_size * memory.config.dtype_bytes
    link = "nvlink" if memory.rig.link.kind in ("nvlink", "fabric") else "pcie"
    start = per_token = 0.0
    if ranks > 1:
        growth = 1 + constants["all_reduce_growth_per_doubling"] * log2(ranks / 2)
        start += 2 * card.num_layers * constants["all_reduce_seconds"][link] * growth
        per_token += 2 * card.num_layers * token / (constants["all_reduce_gbs"][link] * 1e9)
    if stages > 1:
        across = memory.rig.nodes > 1
        gbs = constants["network_gbs"] if across else constants["all_reduce_gbs"][link]
        once = constants["network_seconds"] if across else constants["all_reduce_seconds"][link]
        start += (stages - 1) * once
        per_token += (stages - 1) * 2 * token / (gbs * 1e9)
    return start, per_token
