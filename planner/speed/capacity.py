"""How much a launch serves: a table of loads, the largest that keeps the targets, what it costs."""

from __future__ import annotations

from math import ceil, inf

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import PlanError
from planner.memory.plan import MemoryPlan
from planner.quantity import Basis, Quantity
from planner.speed.load import LoadModel
from planner.speed.serving import (
    Drafting,
    SpeedEstimate,
    estimate,
    inverse,
    predict_speed,
    replicas,
)
from planner.workload import Workload


class Capacity(Struct, frozen=True):
    """How much a launch serves. Users and requests of all data-parallel replicas together."""

    loads: tuple[SpeedEstimate, ...]  # at rising concurrency
    cache_users: float  # that the KV cache holds at once, at the mean length while decoding
    target_users: float | None  # the most with which the latency targets hold; None without any
    target_rate: float | None  # requests per second of theirs
    most_rate: float  # requests per second at the most that can be run
    launches: int | None  # that the request rate needs under the targets; None without a rate


_TABLE = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def plan_capacity(memory: MemoryPlan, workload: Workload, *, task: str = "chat") -> Capacity:
    """The launch at rising load: a table, the largest load that meets the targets.

    Raises as `predict_speed` does, save for a request rate that is too high.
    """
    count = replicas(memory)
    drafts = Drafting.of(memory, workload, task)
    model = LoadModel.of(memory, workload, gain=drafts.value)
    most = model.most_running * count
    asked = {workload.concurrency} if workload.request_rate is None else set()
    users = sorted(each for each in {*_TABLE, *asked} if each <= max(most, *asked, 1))
    closed = replace(workload, request_rate=None)
    loads = [
        estimate(
            memory,
            model,
            model.at(max(1.0, each / count)),
            replace(closed, concurrency=each),
            drafts,
        )
        for each in users
    ]
    limit = model.at(model.most_running).requests * count
    target_users = target_rate = None
    if workload.has_targets:
        target_users = count * model.most_users(workload.tpot_target, workload.ttft_target)
        target_rate = count * model.at(target_users / count).requests if target_users else 0.0
    serves = limit if target_rate is None else target_rate
    launches = None
    if workload.request_rate is not None and serves > 0:
        # A queue at random grows without end where a launch has no time to spare.
        launches = ceil(workload.request_rate / serves - 1e-9)
    return Capacity(
        tuple(loads), most if most < inf else inf, target_users, target_rate, limit, launches
    )


class Aims(Struct, frozen=True):
    """What a server is to reach and what it costs. Times in seconds; None: not asked for."""

    request_rate: float | None = None  # per second
    ttft_target: float | None = None
    tpot_target: float | None = None
    price_per_hour: float | None = None  # of all GPUs together

    def __post_init__(self) -> None:
        price = self.price_per_hour
        if price is not None and not 0 <= price < inf:
            raise PlanError(f"a price of {price:g} an hour makes no sense")

    def on(self, workload: Workload) -> Workload:
        """The workload with these aims."""
        return replace(
            workload,
            request_rate=self.request_rate,
            ttft_target=self.ttft_target,
            tpot_target=self.tpot_target,
        )


class Serving(Struct, frozen=True):
    """A launch as a server: its speed as asked, how much it serves, and the cost of its tokens.

    `speed` is None where more requests come than it can answer.
    """

    speed: SpeedEstimate | None
    capacity: Capacity
    cost: Cost


def plan_serving(
    memory: MemoryPlan, workload: Workload, aims: Aims | None = None, *, task: str = "chat"
) -> Serving:
    """A launch under a workload and aims. Raises `MissingFact` as `predict_speed` does."""
    aims = aims or Aims()
    aimed = aims.on(workload)
    capacity = plan_capacity(memory, aimed, task=task)
    rate = aims.request_rate
    speed = None
    if rate is None or rate < capacity.most_rate:
        speed = predict_speed(memory, aimed, task=task)
    cost = cost_of(memory, speed or capacity.loads[-1], aims.price_per_hour)
    return Serving(speed, capacity, cost)


class Cost(Struct, frozen=True):
    """What tokens cost. The energy is an upper bound: a card seldom draws its whole TDP."""

    price_per_million: Quantity | None  # of output tokens; None where no price was given
    joules_per_token: Quantity | None  # None where the TDP is not known


def cost_of(memory: MemoryPlan, speed: SpeedEstimate, price_per_hour: float | None) -> Cost:
    """Price and energy of an output token at a load; the price is that of all GPUs for an hour."""
    per_second = speed.total
    price = None
    if price_per_hour is not None:
        price = inverse(per_second).times(price_per_hour / 3600 * 1e6)
    watts = [device.gpu.tdp_w for device in memory.rig.devices]
    joules = None
    if all(watts):
        used = memory.config.given.world_size * replicas(memory)
        mean = sum(each or 0 for each in watts) / len(watts)
        joules = inverse(per_second).times(mean * used).no_better_than(Basis.ESTIMATED)
    return Cost(price, joules)
