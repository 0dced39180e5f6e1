"""Speed, capacity and price, as JSON."""

from __future__ import annotations

from pydantic import Field

from planner.report.base import QuantityReport, StrictModel
from planner.speed.capacity import Serving
from planner.speed.serving import SpeedEstimate


class SpeedReport(StrictModel):
    """How fast it serves the workload."""

    tpot: QuantityReport
    ttft: QuantityReport | None = Field(description="with an empty queue")
    ttft_loaded: QuantityReport | None = Field(default=None, description="at the load asked for")
    tokens_per_second_per_user: QuantityReport
    tokens_per_second_total: QuantityReport
    ceiling_per_user: float = Field(description="bandwidth over bytes: the physical limit")
    bound_by: str
    admitted_requests: float
    running_requests: float | None = Field(default=None, description="that run at once")
    preemption_risk: float | None = Field(
        default=None, description="chance that the cache is too small for them at any moment"
    )
    notes: list[str]

    @classmethod
    def of(cls, speed: SpeedEstimate) -> SpeedReport:
        """From the library's estimate."""
        return cls(
            tpot=QuantityReport.of(speed.tpot),
            ttft=QuantityReport.of(speed.ttft) if speed.ttft is not None else None,
            ttft_loaded=(
                QuantityReport.of(speed.ttft_loaded) if speed.ttft_loaded is not None else None
            ),
            tokens_per_second_per_user=QuantityReport.of(speed.per_user),
            tokens_per_second_total=QuantityReport.of(speed.total),
            ceiling_per_user=speed.ceiling_per_user,
            bound_by=speed.bound_by,
            admitted_requests=speed.admitted,
            running_requests=speed.running,
            preemption_risk=speed.preemption_risk,
            notes=list(speed.notes),
        )


class LoadReport(StrictModel):
    """What so many users at once get."""

    concurrency: int
    tokens_per_second_per_user: QuantityReport
    tokens_per_second_total: QuantityReport
    ttft: QuantityReport | None

    @classmethod
    def of(cls, load: SpeedEstimate) -> LoadReport:
        """From the library's."""
        return cls(
            concurrency=load.workload.concurrency,
            tokens_per_second_per_user=QuantityReport.of(load.per_user),
            tokens_per_second_total=QuantityReport.of(load.total),
            ttft=QuantityReport.of(load.ttft_loaded) if load.ttft_loaded is not None else None,
        )


class ServingReport(StrictModel):
    """How much a launch serves, and what its tokens cost."""

    speed: SpeedReport | None = Field(description="as asked; null if more comes than it can answer")
    loads: list[LoadReport]
    cache_users: float | None = Field(
        description="requests that the KV cache holds at once, at their mean length; null: any"
    )
    max_requests_per_second: float
    target_users: float | None = Field(description="the most with which the targets are kept")
    target_requests_per_second: float | None
    launches: int | None = Field(description="that the request rate needs, side by side")
    price_per_million_tokens: QuantityReport | None
    joules_per_token: QuantityReport | None = Field(description="upper bound, from the TDP")

    @classmethod
    def of(cls, serving: Serving) -> ServingReport:
        """From the library's."""
        capacity, cost = serving.capacity, serving.cost
        price, joules = cost.price_per_million, cost.joules_per_token
        users = capacity.cache_users
        return cls(
            speed=SpeedReport.of(serving.speed) if serving.speed is not None else None,
            loads=[LoadReport.of(load) for load in capacity.loads],
            cache_users=users if users < float("inf") else None,
            max_requests_per_second=capacity.most_rate,
            target_users=capacity.target_users,
            target_requests_per_second=capacity.target_rate,
            launches=capacity.launches,
            price_per_million_tokens=QuantityReport.of(price) if price is not None else None,
            joules_per_token=QuantityReport.of(joules) if joules is not None else None,
        )
