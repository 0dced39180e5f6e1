"""How speed is printed: for one user, as asked, at rising load, and what it costs."""

from __future__ import annotations

from planner.cli.console import say, say_item, show
from planner.cli.format import chance, rate_band, seconds
from planner.memory.plan import MemoryPlan
from planner.quantity import Quantity
from planner.speed.capacity import Aims, Capacity, Cost, Serving, plan_serving
from planner.speed.serving import SpeedEstimate
from planner.workload import Workload

_LIKELY = 0.01  # chances below it are not worth a word


def print_speed(
    memory: MemoryPlan, workload: Workload, aims: Aims | None = None, task: str = "chat"
) -> None:
    """The speed of a plan under a workload, and what it serves."""
    aims = aims or Aims()
    print_serving(plan_serving(memory, workload, aims, task=task), aims)


def print_serving(serving: Serving, aims: Aims) -> None:
    """How fast a launch serves, as asked and at rising load."""
    capacity = serving.capacity
    if serving.speed is not None:
        _print_asked(serving.speed, capacity.loads[0], aims)
    if len(capacity.loads) > 1:
        _print_loads(capacity)
    _print_aims(serving, aims)
    _print_cost(serving.cost)


def _print_asked(speed: SpeedEstimate, alone: SpeedEstimate, aims: Aims) -> None:
    users, loaded = speed.workload.concurrency, speed.ttft_loaded
    if aims.request_rate is not None:
        say(
            f"At {aims.request_rate:g} requests a second about {speed.running:.1f} run at once, "
            f"{rate_band(speed.per_user)} tok/s each{_first(loaded)}"
        )
        speed, users, loaded = alone, 1, alone.ttft
    total = f", {rate_band(speed.total)} tok/s in total" if users > 1 else ""
    first = loaded if users > 1 else speed.ttft
    say(
        f"Speed: {rate_band(speed.per_user)} tok/s for each user{total}{_first(first)}; physical "
        f"limit {speed.ceiling_per_user:.0f} tok/s; most of a step is {speed.bound_by} "
        f"({speed.tpot.basis.label})"
    )
    if speed.preemption_risk > _LIKELY and speed.workload.concurrency > 1:
        say(
            f"Note: at any moment the cache is too small for them with a chance of "
            f"{chance(speed.preemption_risk)}; then vLLM preempts one and starts it again later"
        )
    for note in speed.notes:
        say(f"Note: {note}")


def _first(time: Quantity | None) -> str:
    if time is None:
        return ""
    return f", first token after {seconds(time.value)} [{_span(time)}]"


def _span(time: Quantity) -> str:
    return f"{seconds(time.low)}-{seconds(time.high)}"


def _print_loads(capacity: Capacity) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("at once", justify="right")
    for name in ("tok/s for each", "tok/s in total", "first token"):
        table.add_column(name)
    for load in capacity.loads:
        ttft = load.ttft_loaded
        table.add_row(
            f"{load.workload.concurrency}",
            rate_band(load.per_user),
            rate_band(load.total),
            f"{seconds(ttft.value)} [{_span(ttft)}]" if ttft is not None else "-",
        )
    show(table)


def _print_aims(serving: Serving, aims: Aims) -> None:
    capacity, rate = serving.capacity, aims.request_rate
    if capacity.target_users is not None:
        kept = " and ".join(
            f"{name} at most {seconds(value)}"
            for name, value in (("first token", aims.ttft_target), ("token", aims.tpot_target))
            if value is not None
        )
        if capacity.target_users >= 1:
            assert capacity.target_rate is not None
            say(
                f"With {kept}: up to {int(capacity.target_users)} at once, "
                f"{capacity.target_rate:.3g} requests a second"
            )
        else:
            say(f"Not even one user gets {kept}")
    if rate is None:
        return
    if serving.speed is None:
        say(
            f"{rate:g} requests a second are more than it can answer: "
            f"{capacity.most_rate:.3g} at most"
        )
    if capacity.launches is not None and capacity.launches > 1:
        say_item(f"for {rate:g} requests a second: {capacity.launches} such launches side by side")


def _print_cost(cost: Cost) -> None:
    price, joules = cost.price_per_million, cost.joules_per_token
    if price is not None:
        say(f"A million tokens of answers: {price.value:.2f} [{price.low:.2f}-{price.high:.2f}]")
    if joules is not None:
        most = f"{joules.value:.2g}" if joules.value < 100 else f"{joules.value:,.0f}"
        say(f"Energy: at most {most} J a token, if the GPUs draw their whole TDP")
