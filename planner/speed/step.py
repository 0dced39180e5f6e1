"""How long one step of the engine takes.

An analytic model that anyone can check (constants and their source in data/constants.json):

    step = weights / (eta x bandwidth) + operations / (efficiency x rate)
         + cache / (eta_kv x bandwidth) + layers x fixed + host + collectives

with eta by weight format and efficiency by the dtype that the format's kernels compute in, part by
part: attention, MLP, experts, output head. Reading and computing are added, not the longer of the
two taken: no kernel overlaps them whole, and batches that verify drafts show it.
Batch, context and tokens may be numbers or numpy arrays that broadcast.
"""

from __future__ import annotations

from math import log2
from typing import Final

from msgspec import Struct

from planner.engine.device import Platform
from planner.memory.plan import MemoryPlan
from planner.speed.amounts import Amount, larger
from planner.speed.constants import Constants, speed_constants
from planner.speed.demand import StepDemand
from planner.speed.hardware import Hardware, MissingFact, kernel_kind

__all__ = ["MissingFact", "StepModel", "StepTime"]

_FUSED_SINCE: Final = "0.20.0"  # all-reduce, norm and quantization in one kernel


class StepTime(Struct, frozen=True):
    """Seconds of a step, by what takes them; arrays where arrays were asked for."""

    weights: Amount
    compute: Amount  # 0 where the compute rate is not known
    kv: Amount  # reading KV cache and states, or computing attention where that takes longer
    fixed: Amount  # launches and small kernels of all layers; the host
    communication: Amount
    ceiling: Amount  # bytes over bandwidth: no step is shorter

    @property
    def total(self) -> Amount:
        """Seconds of the step."""
        return self.weights + self.compute + self.kv + self.fixed + self.communication


class StepWork(Struct, frozen=True):
    """What one rank does in a step."""

    flops: Amount
    bytes: Amount  # of weights and cache

    @property
    def intensity(self) -> Amount:
        """Operations per byte."""
        return self.flops / self.bytes


class StepModel(Struct, frozen=True):
    """The steps of a planned launch: what they ask of a rank, and how fast that one is."""

    demand: StepDemand
    hardware: Hardware
    kernels: tuple[str, ...]  # the format whose kernels run each of the demand's matrices
    dtypes: tuple[str, ...]  # in which they compute
    cache_efficiency: str  # the constant for its KV cache's width
    hidden_bytes: int  # of one token between layers
    tensor_ranks: int
    stages: int
    legacy: bool  # vLLM up to 0.6: much of a step is spent on the host
    synchronous: bool  # a step is scheduled after the one before, not while it runs
    fused: bool
    eager: bool
    prefetched: bool  # weights in host memory are fetched ahead, while layers run
    slowdown: str | None  # the constant by which another stack than CUDA takes longer
    constants: Constants

    @classmethod
    def of(
        cls, memory: MemoryPlan, constants: Constants | None = None, *, legacy: bool = False
    ) -> StepModel:
        """The steps of a plan, without those of its draft.

        `legacy` is an engine of up to 0.6, whose memory is planned by the rules of a later one.
        Raises `MissingFact` for a GPU whose bandwidth is not known, for models that pool or listen,
        and for weights in host memory if the link to it is not known.
        """
        if memory.config.pooling:
            raise MissingFact("a pooling model writes no tokens: no speed")
        if memory.card.has_cross_attention:
            raise MissingFact("speed with an audio encoder was not measured: no speed")
        demand, hardware = StepDemand.of(memory), Hardware.of(memory)
        if demand.offloaded and hardware.host_link is None:
            raise MissingFact("weights in host memory, and the link to it is not known: no speed")
        config, given = memory.config, memory.config.given
        capability = memory.device.capability
        kinds = [matrices.kind for matrices in demand.matrices]
        width = 16 if config.kv_cache_dtype in ("auto", "bfloat16", "float16") else 8
        return cls(
            demand=demand,
            hardware=hardware,
            kernels=tuple(kernel_kind(kind, capability) for kind in kinds),
            dtypes=tuple(hardware.compute_dtype(kind, capability) for kind in kinds),
            cache_efficiency="16bit" if width == 16 else "narrow",
            hidden_bytes=memory.card.hidden_size * config.dtype_bytes,
            tensor_ranks=given.tensor_parallel_size,
            stages=given.pipeline_parallel_size,
            legacy=legacy,
            synchronous=not config.async_scheduling,
            fused=memory.release.at_least(_FUSED_SINCE) and not legacy,
            eager=not config.cudagraph_sizes,
            prefetched=bool(given.offload_group_size),
            slowdown="rocm_factor" if memory.device.platform is Platform.ROCM else None,
            constants=constants or speed_constants(),
        )

    @property
    def bandwidth(self) -> float:
        """Bytes per second, as the datasheet says."""
        return self.hardware.bandwidth

    def seconds(
        self,
        batch: Amount,
        context: Amount,
        query_tokens: Amount = 1,
        prompt_tokens: Amount = 0,
        prompts: Amount = 0,
        prompt_flops: Amount = 0,
    ) -> StepTime:
        """A step of `batch` decoding requests of mean length `context` on each replica.

        Each request brings `query_tokens` tokens (more than one where drafts are verified): all of
        them draw experts and are computed, and the cache is read once for each request. Beside
        them a chunk of `prompt_tokens` may be processed, which finishes so many `prompts` and has
        `prompt_flops` operations of attention on a rank.
        """
        decoded = batch * query_tokens
        tokens = decoded + prompt_tokens
        read = self.demand.weight_bytes(tokens, self.constants["expert_draw_exponent"])
        cached = self.demand.cache_bytes(batch, context)
        attention = self._attention_compute(self.demand.attention_flops(context) * decoded)
        reading = cached / (self._cache_efficiency * self.bandwidth)
        matrices = self._matrix_seconds(tokens, decoded + prompts)
        slower = self.constants[self.slowdown] if self.slowdown else 1.0
        return StepTime(
            weights=slower * self.weight_seconds(tokens),
            compute=slower * (matrices + self._attention_compute(prompt_flops)),
            kv=slower * larger(reading, attention),
            fixed=slower * self.fixed_seconds(batch),
            communication=slower * self.communication_seconds(tokens),
            ceiling=self._least_seconds(read, cached),
        )

    def work(self, batch: Amount, context: Amount) -> StepWork:
        """What a decode step asks of a rank, whatever time it takes."""
        demand = self.demand
        of_token = sum(matrices.flops_per_token for matrices in demand.matrices)
        flops = batch * (of_token + demand.attention_flops(context))
        read = demand.weight_bytes(batch, self.constants["expert_draw_exponent"])
        return StepWork(flops, read + demand.cache_bytes(batch, context))

    @property
    def least_compute_seconds(self) -> float | None:
        """Seconds of a token's operations at the peak rates; None where they are not known."""
        rates = self.hardware.rates
        if not rates:
            return None
        matrices = zip(self.demand.matrices, self.dtypes, strict=True)
        return sum(each.flops_per_token / rates[dtype] for each, dtype in matrices)

    def weight_seconds(self, tokens: Amount) -> Amount:
        """Seconds of reading the weights that a step of so many tokens needs."""
        constants = self.constants
        exponent = constants["expert_draw_exponent"]
        on_gpu: Amount = 0.0
        from_host: Amount = 0.0
        for matrices, kernel in zip(self.demand.matrices, self.kernels, strict=True):
            read = matrices.read(tokens * self.demand.replicas, exponent)
            on_gpu = on_gpu + read / self._weight_efficiency(matrices.part, kernel)
            from_host = from_host + read
        on_gpu = on_gpu / self.bandwidth
        if not self.demand.offloaded:
            return on_gpu
        from_host = from_host * self.demand.offloaded / self._host_rate(constants)
        on_gpu = on_gpu * (1 - self.demand.offloaded)
        return larger(on_gpu, from_host) if self.prefetched else on_gpu + from_host

    def compute_seconds(self, flops: Amount) -> Amount:
        """Seconds of 16-bit operations of one rank; 0 where the compute rate is not known."""
        rate = self.hardware.rates.get("16bit")
        if rate is None:
            return 0.0 * flops
        return flops / (self.constants["compute_efficiency"]["16bit"] * rate)

    def fixed_seconds(self, batch: Amount) -> Amount:
        """Seconds that neither bytes nor operations explain: layers, the host, its requests."""
        constants, demand = self.constants, self.demand
        if self.legacy:
            host = constants["legacy_step_seconds"] + batch * constants["legacy_request_seconds"]
        else:
            host = constants["step_seconds"] + batch * constants["request_seconds"]
            if self.synchronous:
                host = host + constants["synchronous_step_seconds"]
        layers: float = (
            demand.layers * constants["layer_seconds"]
            + demand.expert_layers * constants["expert_layer_seconds"]
            + demand.latent_layers * constants["latent_layer_seconds"]
            + demand.recurrent_layers * constants["recurrent_layer_seconds"]
        )
        if self.eager:
            layers += demand.layers * constants["eager_layer_seconds"]
        return host + layers * self._fusion

    def communication_seconds(self, tokens: Amount) -> Amount:
        """Seconds of the collectives of a step with so many tokens on each replica.

        Two all-reduces a layer under tensor parallelism. Replicas that share experts agree on each
        step, and every layer of experts gathers the tokens of all and scatters the sums. Hand-overs
        between pipeline stages.
        """
        return self.collective_start + tokens * self._collective_per_token

    @property
    def collective_start(self) -> float:
        """Seconds of all collectives of a step, whatever their size."""
        demand, ranks, start = self.demand, self.tensor_ranks, 0.0
        if ranks > 1:
            start += 2 * demand.layers * self._collective_seconds(ranks)
        if demand.replicas > 1:
            everyone = ranks * demand.replicas
            start += 2 * demand.expert_layers * self._collective_seconds(everyone)
            start += self.constants["replica_sync_seconds"]
        if self.stages > 1:  # point to point: no longer with more ranks
            spread = self.hardware.link.spans_machines(ranks * self.stages)
            start += (self.stages - 1) * self._once(spread)
        return start

    @property
    def _collective_per_token(self) -> float:
        demand, ranks, copies = self.demand, self.tensor_ranks, self.demand.replicas
        seconds = 0.0
        if ranks > 1:  # an all-reduce scatters sums and gathers them
            seconds += 2 * demand.layers * 2 * self._gather_seconds(self.hidden_bytes, ranks, ranks)
        if copies > 1:
            of_all = copies * self.hidden_bytes
            gather = self._gather_seconds(of_all, copies, ranks * copies)
            seconds += 2 * demand.expert_layers * gather
        if self.stages > 1:
            spread = self.hardware.link.spans_machines(ranks * self.stages)
            seconds += (self.stages - 1) * 2 * self.hidden_bytes / self._rate(spread)
        return seconds

    def _gather_seconds(self, size: float, parts: int, ranks: int) -> float:
        """Seconds to give each of `ranks` all of `size` bytes, of which it has one of `parts`.

        Over machines, what the others have comes once through the network cards of all GPUs.
        """
        seconds = size * (parts - 1) / parts / self._rate(over_network=False)
        link = self.hardware.link
        if link.devices is not None and link.spans_machines(ranks):
            from_others = size * (1 - link.devices / ranks)
            seconds += from_others / link.devices / self._rate(over_network=True)
        return seconds

    def _collective_seconds(self, ranks: int) -> float:
        """Seconds of one small collective of so many ranks."""
        return self._once(self.hardware.link.spans_machines(ranks)) * self._growth(ranks)

    def _once(self, over_network: bool) -> float:
        """Seconds until a message has come over."""
        if over_network:
            return float(self.constants["network_seconds"])
        return float(self.constants["all_reduce_seconds"][self.hardware.link.kind] * self._fusion)

    def _rate(self, over_network: bool) -> float:
        """Bytes per second of a GPU, for large messages."""
        link = self.hardware.link
        if over_network:
            return float(1e9 * self.constants["network_gbs"])
        return float(link.rate * self.constants["link_efficiency"][link.kind])

    def _growth(self, ranks: int) -> float:
        growth: float = self.constants["all_reduce_growth_per_doubling"]
        return 1 + growth * log2(ranks / 2)

    @property
    def _fusion(self) -> float:
        factor: float = self.constants["fused_factor"]
        return factor if self.fused else 1.0

    @property
    def _cache_efficiency(self) -> float:
        efficiency: float = self.constants["kv_efficiency"]
        if self.cache_efficiency == "narrow":
            efficiency *= self.constants["narrow_kv_factor"]
        return efficiency

    def _weight_efficiency(self, part: str, kernel: str) -> float:
        by_kind = self.constants["weight_efficiency"]
        efficiency: float = by_kind.get(kernel, by_kind["int4"])
        if part == "experts":
            efficiency *= self.constants["expert_factor"]
        return efficiency

    def _matrix_seconds(self, tokens: Amount, sampled: Amount) -> Amount:
        """Seconds of the operations of all matrices; the head's for tokens that are sampled."""
        rates, constants = self.hardware.rates, self.constants
        total: Amount = 0.0 * tokens
        if not rates:
            return total
        for matrices, dtype in zip(self.demand.matrices, self.dtypes, strict=True):
            efficiency = constants["compute_efficiency"][dtype]
            if matrices.part == "experts":
                efficiency *= constants["expert_compute_factor"]
            computed = sampled if matrices.part == "head" else tokens
            total = total + computed * matrices.flops_per_token / (efficiency * rates[dtype])
        return total

    def _attention_compute(self, flops: Amount) -> Amount:
        rate = self.hardware.rates.get("16bit")
        if rate is None:
            return 0.0 * flops
        return flops / (self.constants["attention_compute_efficiency"] * rate)

    def _host_rate(self, constants: Constants) -> float:
        assert self.hardware.host_link is not None
        efficiency: float = constants["host_link_efficiency"]
        return self.hardware.host_link * efficiency

    def _least_seconds(self, read: Amount, cached: Amount) -> Amount:
        """Bytes over bandwidth: of the GPU's memory, or of the link to what is in the host's."""
        on_gpu = (read * (1 - self.demand.offloaded) + cached) / self.bandwidth
        if not self.demand.offloaded or self.hardware.host_link is None:
            return on_gpu
        return larger(on_gpu, read * self.demand.offloaded / self.hardware.host_link)
