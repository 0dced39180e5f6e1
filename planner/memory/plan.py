"""MemoryPlan: where every byte of the GPU goes, and whether vLLM will start.

The budget of `v1/worker/gpu_worker.py`: what is requested of the device, less weights and buffers
(consumed), the activation peak, memory outside torch's allocator and, from 0.20.0 on, the CUDA
graph estimate, is the KV cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hardware_db import Device, Rig
from model_cards import ModelCard
from planner.calibration import Term, in_use
from planner.engine.backend import AttentionBackend
from planner.engine.defaults import ResolvedConfig, resolve
from planner.engine.device import DeviceFacts, Platform, device_facts
from planner.engine.refusal import Refusal, RefusalKind, Unloadable
from planner.engine.releases import Release, find_release
from planner.engine.remote_code import remote_code_notes
from planner.engine.rules import refusals, unexamined
from planner.engine.served import as_served
from planner.engine_config import EngineConfig
from planner.errors import PlanError
from planner.memory.activation import activation_peak
from planner.memory.buffers import RankBuffers, imported_bytes
from planner.memory.cache_layout import CacheLayout
from planner.memory.constants import GIB, constant
from planner.memory.cuda_graphs import counted, cuda_graph_estimate
from planner.memory.free_memory import (
    context,
    device_total,
    free_at_start,
    start_margin,
    taken_at_start,
)
from planner.memory.fused_all_reduce import fused_all_reduce_bytes
from planner.memory.kv_cache import KVCachePlan
from planner.memory.kv_groups import request_blocks
from planner.memory.kv_specs import WHOLE
from planner.memory.loaded import LoadedModel, LoadedStage, load_model
from planner.memory.nodes import too_few_gpus
from planner.memory.verdict import Start, Verdict, judge
from planner.memory.warm_up import warm_up_check
from planner.memory.weights import RankWeights
from planner.quantity import Basis, Quantity, total
from planner.turns import give_way

_ESTIMATED_WEIGHTS_BAND = 0.06
_OTHER_RELEASE_WEIGHTS_BAND = 0.003  # holds nine of ten published launches
_FIRST_SWITCHED = (9, 0)


class RankMemory(Struct, frozen=True):
    """The budget of one rank of a pipeline stage; quantities in bytes."""

    weights: Quantity
    parts: RankWeights
    buffers: RankBuffers
    activation: Quantity
    non_torch: Quantity
    cuda_graphs: Quantity
    graphs_counted: bool  # whether the graphs come out of the KV cache's share
    kv_cache: Quantity  # "Available KV cache memory"; negative if the rest is too large


class MemoryPlan(Struct, frozen=True):
    """A launch, in memory. `ranks` has one entry for each pipeline stage."""

    card: ModelCard
    rig: Rig
    config: ResolvedConfig
    release: Release
    device: DeviceFacts
    device_total: Quantity
    start: Start  # the check of free memory
    given_size_check: Start | None  # that of a KV cache whose size is given
    requested: Quantity  # total x gpu_memory_utilization
    backends: tuple[AttentionBackend, ...]
    ranks: tuple[RankMemory, ...]
    layout: CacheLayout
    kv_cache: KVCachePlan
    refusals: tuple[Refusal, ...]  # every rule that is broken, whatever the memory
    starts: Verdict
    notes: tuple[str, ...]

    @property
    def kv_cache_low(self) -> KVCachePlan:
        """With the pool at the lower end of its band."""
        return self._in_pools([rank.kv_cache.low for rank in self.ranks])

    @property
    def kv_cache_high(self) -> KVCachePlan:
        """With the pool at the upper end of its band."""
        return self._in_pools([rank.kv_cache.high for rank in self.ranks])

    def _in_pools(self, pools: Sequence[float]) -> KVCachePlan:
        return _in_pools(self.layout, pools, self.config, self.release)

    @property
    def block_size(self) -> int:
        """Tokens of a block of the attention layers; of the states where there are none."""
        specs = [spec for group in self.kv_cache.groups for spec in group.distinct]
        whole = [spec.block_size for spec in specs if spec.kind in WHOLE]
        sizes = whole or [spec.block_size for spec in specs]
        return min(sizes, default=0)

    @property
    def left_over(self) -> Quantity:
        """What vLLM leaves of the device: what it does not ask for, or need without a cache."""
        if self.kv_cache.groups:
            return self.device_total.times(1 - self.config.gpu_memory_utilization)
        rank = self.tightest
        spent = [rank.weights, Quantity.exact(rank.buffers.total), rank.activation, rank.non_torch]
        if rank.graphs_counted:
            spent.append(rank.cuda_graphs)
        return self.device_total - total(spent)

    @property
    def tightest(self) -> RankMemory:
        """The rank with the smallest KV cache."""
        return min(self.ranks, key=lambda rank: rank.kv_cache.value)

    @property
    def kv_tokens(self) -> Quantity:
        """Tokens the cache holds, as vLLM prints them."""
        return self._band(lambda plan: float(plan.tokens))

    @property
    def max_concurrency(self) -> Quantity:
        """Requests of full length the cache holds at once."""
        return self._band(lambda plan: plan.concurrency)

    def requests_at(self, length: int) -> Quantity:
        """Requests of `length` tokens each that the cache holds at once."""

        return self._band(lambda plan: self._held(plan, length))

    def expected_requests_at(self, length: int) -> float:
        """The same without its band."""
        return self._held(self.kv_cache, length)

    def _held(self, plan: KVCachePlan, length: int) -> float:
        blocks = request_blocks(plan.groups, length, self.config.in_flight_tokens)
        return plan.num_blocks / blocks if blocks else float("inf")

    def _band(self, of: Callable[[KVCachePlan], float]) -> Quantity:
        basis = self.tightest.kv_cache.basis
        return Quantity(
            of(self.kv_cache), of(self.kv_cache_low), of(self.kv_cache_high), basis, "KV cache"
        )


def plan_memory(
    card: ModelCard,
    rig: Rig,
    config: EngineConfig | None = None,
    *,
    draft: ModelCard | None = None,
    offline: bool = False,
    environ: Mapping[str, str] | None = None,
    vllm: str | Release | None = None,
) -> MemoryPlan:
    """The memory of a launch of `card` on `rig`.

    `draft` is the card of the model that `config.speculative_config` names, `offline` the `LLM`
    class instead of the server, `environ` the variables it is started with
    (`VLLM_CPU_KVCACHE_SPACE`). What vLLM would refuse is in the plan's verdict. Raises
    `PlanError` where there is nothing to plan with: too few GPUs, or a GPU whose usable memory is
    not known.
    """
    give_way()
    config = config or EngineConfig()
    card = as_served(card, config)
    release = vllm if isinstance(vllm, Release) else find_release(vllm)
    slot = _checked(rig, config)
    device = device_facts(slot.gpu, environ)
    resolved = resolve(card, device, config, release, draft, offline=offline, environ=environ)
    broken = list(refusals(card, device, resolved, release))
    broken += too_few_gpus(rig, config)
    try:
        loaded = load_model(card, resolved, device)
    except Unloadable as error:
        raise Refused([*broken, Refusal(error.kind, str(error))]) from error
    if loaded.cache.problem is not None:
        broken.append(Refusal(RefusalKind.KV_LAYOUT, loaded.cache.problem))
    total_bytes = device_total(slot)
    requested = total_bytes.times(resolved.gpu_memory_utilization)
    ranks = _ranks(card, rig, resolved, device, loaded, release, requested)
    pools = [rank.kv_cache for rank in ranks]
    expected = _in_pools(loaded.cache, [pool.value for pool in pools], resolved, release)
    given_size = _given_size_check(slot, resolved, device, release, ranks, expected)
    start = _start(card, slot, resolved, device, release, requested, ranks, given_size)
    verdict = judge(
        broken,
        pools,
        expected,
        start,
        resolved,
        state_blocks=state_blocks_of_batch(card, resolved, release),
        where="on this machine" if device.platform is Platform.CPU else "on each GPU",
    )
    return MemoryPlan(
        card=card,
        rig=rig,
        config=resolved,
        release=release,
        device=device,
        device_total=total_bytes,
        start=start,
        given_size_check=given_size,
        requested=requested,
        backends=tuple(dict.fromkeys(loaded.backends.values())),
        ranks=tuple(ranks),
        layout=loaded.cache,
        kv_cache=expected,
        refusals=tuple(broken),
        starts=verdict,
        notes=tuple(dict.fromkeys(_notes(card, rig, resolved, device, release, expected))),
    )


def _checked(rig: Rig, config: EngineConfig) -> Device:
    """The device that bounds the launch; `PlanError` where there is nothing to plan with."""
    slot = rig.smallest
    if slot.total_bytes is None:
        raise PlanError(
            f"usable memory of {slot.gpu.name} is not known; give it with the name, "
            f"{slot.gpu.slug}:SIZE, where SIZE is for example 11GiB"
        )
    if len({each.gpu.vendor for each in rig.devices}) > 1:
        raise PlanError(f"{rig.spec}: vLLM does not run one model on cards of different makers")
    needed = config.world_size * config.data_parallel_size
    if needed > rig.gpu_count:
        raise PlanError(f"{needed} GPUs are needed, but {rig.spec} has {rig.gpu_count}")
    return slot


def _in_pools(
    layout: CacheLayout, pools: Sequence[float], config: ResolvedConfig, release: Release
) -> KVCachePlan:
    return layout.kv_cache([max(0, int(pool)) for pool in pools], config, release)


def _start(
    card: ModelCard,
    slot: Device,
    config: ResolvedConfig,
    device: DeviceFacts,
    release: Release,
    requested: Quantity,
    ranks: Sequence[RankMemory],
    given_size: Start | None,
) -> Start:
    """The check of free memory that leaves least."""
    share = config.gpu_memory_utilization
    taken = taken_at_start(slot, device, release, config.given.tensor_parallel_size)
    free = free_at_start(slot, taken)
    if given_size is not None and device.platform is Platform.CPU:
        return given_size  # where the share is not looked at then
    why = f"--gpu-memory-utilization {share:g} asks for"
    start = Start(start_margin(slot, taken, share), free, requested, why)
    if not counted(release, device.platform) and config.kv_cache_memory_bytes is None:
        left = device_total(slot).times(1 - share) - taken
        last = warm_up_check(card, device, release, left, ranks[-1].cuda_graphs)
        if last is not None and last.margin.value < start.margin.value:
            return last
    if given_size is not None and given_size.margin.value < start.margin.value:
        return given_size
    return start


def _given_size_check(
    slot: Device,
    config: ResolvedConfig,
    device: DeviceFacts,
    release: Release,
    ranks: Sequence[RankMemory],
    cache: KVCachePlan,
) -> Start | None:
    """Whether a cache whose size is given fits beside the model; None where vLLM sizes it.

    vLLM does not look (`determine_available_memory` of v1/worker/gpu_worker.py returns what was
    given): the allocation itself runs out of memory, or the CUDA graphs that follow it.
    """
    given, blocks = config.kv_cache_memory_bytes, config.given.num_gpu_blocks_override
    if device.platform is Platform.CPU or not cache.groups:
        blocks = None
    if given is None and blocks is None:
        return None
    taken = taken_at_start(slot, device, release, config.given.tensor_parallel_size)
    free = free_at_start(slot, taken)
    asked = []
    for place, rank in enumerate(ranks):
        size = Quantity.exact(given or 0)
        if blocks is not None:
            size = Quantity.exact(blocks * cache.bytes_per_block[place])
        buffers = Quantity.exact(rank.buffers.total)
        asked.append(total([rank.weights, buffers, rank.non_torch, size, rank.cuda_graphs]))
    most = max(asked, key=lambda each: each.value)
    return Start(free - most, free, most, "the model and its KV cache take")


def _notes(
    card: ModelCard,
    rig: Rig,
    config: ResolvedConfig,
    device: DeviceFacts,
    release: Release,
    kv: KVCachePlan,
) -> Iterator[str]:
    """What a reader of the plan must know."""
    yield from (*rig.notes, *card.notes)
    yield from remote_code_notes(card, config.given.trust_remote_code)
    speculating = config.speculation.note if config.speculation is not None else None
    yield from filter(None, (release.note, speculating, unexamined(device, release)))
    yield from _taught(rig.smallest.gpu.slug, release)
    if len(kv.groups) > 1 and not release.fact("kv_tokens_by_concurrency"):
        yield (
            f"vLLM {release.name} prints the tokens of one of the {len(kv.groups)} groups "
            "that share the cache: more requests fit than they suggest"
        )
    needed = config.given.world_size * config.given.data_parallel_size
    if needed < rig.gpu_count:
        yield f"GPUs in use: {needed} of {rig.gpu_count}"
    if rig.mixed:
        yield f"mixed cards: the smallest, {rig.smallest.gpu.name}, bounds every rank"


def _taught(gpu: str, release: Release) -> Iterator[str]:
    """That earlier runs corrected the plan."""
    runs = in_use().runs(gpu, release)
    if runs:
        terms = ", ".join(term.label for term in in_use().terms(gpu, release))
        counted = "an earlier run" if runs == 1 else f"{runs} earlier runs"
        yield f"corrected by {counted} (vplan calibration list): {terms}"


def state_blocks_of_batch(card: ModelCard, config: ResolvedConfig, release: Release) -> int:
    """Blocks that vLLM wants for a full batch before it captures graphs of recurrent layers.

    `resolve_cudagraph_mode_and_sizes` in config/compilation.py.
    """
    captures = bool(card.states and config.cudagraph_sizes)
    return config.max_num_seqs if captures and release.fact("a_state_block_a_request") else 0


class Refused(PlanError):
    """vLLM refuses the layout itself (`Unloadable`): there is no budget."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__(refusals[0].reason)
        self.refusals = tuple(refusals)


def _ranks(
    card: ModelCard,
    rig: Rig,
    config: ResolvedConfig,
    device: DeviceFacts,
    loaded: LoadedModel,
    release: Release,
    requested: Quantity,
) -> list[RankMemory]:
    non_torch = _non_torch(card, rig, config, device, release)
    is_counted = counted(release, device.platform)
    ranks = []
    for index, stage in enumerate(loaded.stages):
        last = index == len(loaded.stages) - 1
        weights = _weights(card, stage, release)
        buffers = replace(stage.buffers, imported=imported_bytes(card, device, release))
        if device.platform is not Platform.CPU and not release.fact("runner_buffers_counted"):
            buffers = buffers.of_model
        if device.platform is Platform.CPU:  # profiles nothing and captures nothing
            activation = Quantity.exact(0, "not profiled on CPU")
            graphs = Quantity.exact(0, "no CUDA graphs")
        else:
            activation = activation_peak(
                card, config, device, release, first_stage=index == 0, last_stage=last
            )
            graphs = cuda_graph_estimate(stage.layers, config, release)
            gpu, taught = rig.smallest.gpu.slug, in_use()
            activation = taught.correct(
                Term.ACTIVATION, card.architecture, activation, gpu, release
            )
            graphs = taught.correct(Term.CUDA_GRAPHS, "", graphs, gpu, release)
        if config.kv_cache_memory_bytes is not None:
            pool = Quantity.exact(config.kv_cache_memory_bytes, "--kv-cache-memory-bytes")
        else:
            spent = [weights, Quantity.exact(buffers.total), activation, non_torch]
            if is_counted:
                spent.append(graphs)
            pool = requested - total(spent)
            if not loaded.cache.groups:  # nothing is cached: what is left stays free
                pool = Quantity(
                    min(0.0, pool.value),
                    min(0.0, pool.low),
                    min(0.0, pool.high),
                    pool.basis,
                    "no KV cache",
                )
        if not card.exact:
            pool = pool.no_better_than(Basis.ESTIMATED)
        ranks.append(
            RankMemory(
                weights,
                stage.weights,
                buffers,
                activation,
                non_torch,
                graphs,
                is_counted,
                pool,
            )
        )
    return ranks


def _weights(card: ModelCard, stage: LoadedStage, release: Release) -> Quantity:
    share = stage.weights
    if not card.exact:
        return Quantity.within(
            share.total, _ESTIMATED_WEIGHTS_BAND, Basis.ESTIMATED, "estimated from totals"
        )
    if release.fact("exact_arithmetic"):
        if stage.offload_band:
            low, high = share.total - stage.offload_band, share.total + stage.offload_band
            why = "all but what is in host memory, by whole parameters"
            return Quantity(share.total, low, high, Basis.CALIBRATED, why)
        return Quantity.exact(share.total, "vLLM's own module sizes")
    return Quantity.within(
        share.total,
        _OTHER_RELEASE_WEIGHTS_BAND,
        Basis.CALIBRATED,
        "module sizes of vLLM 0.33.0",
    )


def _non_torch(
    card: ModelCard, rig: Rig, config: ResolvedConfig, device: DeviceFacts, release: Release
) -> Quantity:
    """Memory outside torch's allocator that appears after the snapshot.

    Before 0.9.1 there was no snapshot: all of it counts, the CUDA context too.
    """
    gpu, taught = rig.smallest.gpu.slug, in_use()
    if device.platform is Platform.CPU:
        process = constant("cpu_process_gib", release).times(GIB)
        return taught.correct(Term.CPU_PROCESS, "", process, gpu, release)
    name, ranks = non_torch_name(rig, device, config.given), config.given.tensor_parallel_size
    fitted = constant(name, release, gpu)
    fused = Quantity.exact(fused_all_reduce_bytes(card, config, device, release))
    after = replace(fitted.times(GIB) + fused, source=fitted.source)
    after = taught.correct(Term.OUTSIDE_TORCH, name, after, gpu, release)
    if release.fact("context_inside_utilization"):
        after = replace(after + context(release, ranks, gpu), source=after.source)
    return after


def non_torch_name(rig: Rig, device: DeviceFacts, config: EngineConfig) -> str:
    """The constant of what is outside torch: more with communication between GPUs.

    Most where NCCL reduces in the NVLink switch, from Hopper on and among more than two.
    """
    ranks = config.tensor_parallel_size
    if ranks > 1:
        switched = device.capability is not None and device.capability >= _FIRST_SWITCHED
        if rig.link.kind != "nvlink" or not switched:
            return "non_torch_tp_pcie_gib"
        return "non_torch_tp_nvlink_gib" if ranks == 2 else "non_torch_tp_nvlink_more_gib"
    return "non_torch_pp_gib" if config.pipeline_parallel_size > 1 else "non_torch_gib"
