"""What `vplan diagnose --json` prints."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import asdict
from pydantic import Field

from planner.launch.explain import explain
from planner.launch.facts import Failure, LaunchFacts, RankFacts, Served
from planner.launch.fixes import Fixes
from planner.report.base import StrictModel
from planner.report.findings import RemedyReport


class FailureReport(StrictModel):
    """Why a launch failed."""

    kind: str
    meaning: str
    message: str = Field(description="vLLM's own line")
    changes: list[str]
    subject: str | None
    needed: int | None
    available: int | None
    total: int | None
    utilization: float | None
    asked_len: int | None
    longest_len: int | None
    when_serving: bool
    said: str = Field("", description="the same short, and without what stands around it")

    @classmethod
    def of(cls, failure: Failure, facts: LaunchFacts) -> FailureReport:
        """From the library's."""
        explained = explain(failure, facts)
        return cls(
            kind=failure.kind.value,
            meaning=explained.meaning,
            message=failure.message,
            changes=list(explained.changes),
            subject=failure.subject,
            needed=failure.needed,
            available=failure.available,
            total=failure.total,
            utilization=failure.utilization,
            asked_len=failure.asked_len,
            longest_len=failure.longest_len,
            when_serving=failure.when_serving,
            said=explained.said,
        )


class RankFactsReport(StrictModel):
    """What a worker said of its memory; null where it said nothing."""

    name: str
    total: int | None
    free: int | None
    utilization: float | None
    requested: int | None
    weights: int | None
    consumed: int | None = Field(description="weights and what is outside torch, together")
    activation: int | None
    non_torch: int | None
    cuda_graphs_estimated: int | None
    cuda_graphs: int | None
    kv_cache: int | None
    suggested_kv_cache: int | None

    @classmethod
    def of(cls, rank: RankFacts) -> RankFactsReport:
        """From the library's."""
        return cls(
            name=rank.name,
            total=rank.total,
            free=rank.free,
            utilization=rank.utilization,
            requested=rank.requested,
            weights=rank.weights,
            consumed=rank.consumed,
            activation=rank.activation,
            non_torch=rank.non_torch,
            cuda_graphs_estimated=rank.graphs_estimated,
            cuda_graphs=rank.graphs,
            kv_cache=rank.kv_cache,
            suggested_kv_cache=rank.suggested_kv_cache,
        )


class MilestoneReport(StrictModel):
    """Something that a launch reached."""

    name: str
    seconds: float | None = Field(description="since the first line with a time")


class ServedReport(StrictModel):
    """Lines about speed, the largest value of each."""

    lines: int
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    running: int | None
    waiting: int | None
    kv_cache_usage_percent: float | None
    preemptions: int
    acceptance_length: float | None

    @classmethod
    def of(cls, served: Served) -> ServedReport:
        """From the library's."""
        return cls(
            lines=served.lines,
            prompt_tokens_per_second=served.prompt_rate,
            generation_tokens_per_second=served.generation_rate,
            running=served.running,
            waiting=served.waiting,
            kv_cache_usage_percent=served.cache_usage,
            preemptions=served.preemptions,
            acceptance_length=served.acceptance_length,
        )


class LaunchFactsReport(StrictModel):
    """One launch, as its log tells it."""

    vllm: str | None
    model: str | None
    tensor_parallel_size: int | None
    max_model_len: int | None
    device: str | None
    attention_backend: str | None
    blocks: int | None
    kv_tokens: int | None
    max_concurrency: float | None
    ready: bool
    milestones: list[MilestoneReport]
    seconds: dict[str, float | None]
    ranks: list[RankFactsReport]
    served: ServedReport
    failure: FailureReport | None

    @classmethod
    def of(cls, facts: LaunchFacts) -> LaunchFactsReport:
        """From the library's."""
        return cls(
            vllm=facts.release,
            model=facts.model,
            tensor_parallel_size=facts.tensor_parallel_size,
            max_model_len=facts.max_model_len,
            device=facts.device,
            attention_backend=facts.attention_backend,
            blocks=facts.blocks,
            kv_tokens=facts.kv_tokens,
            max_concurrency=facts.max_concurrency,
            ready=facts.is_ready,
            milestones=[
                MilestoneReport(name=milestone.name.lower(), seconds=seconds)
                for milestone, seconds in facts.milestones
            ],
            seconds=asdict(facts.times),
            ranks=[RankFactsReport.of(rank) for rank in facts.ranks],
            served=ServedReport.of(facts.served),
            failure=FailureReport.of(facts.failure, facts) if facts.failure is not None else None,
        )


class DiagnosisReport(StrictModel):
    """`vplan diagnose --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["diagnosis"] = "diagnosis"
    launches: list[LaunchFactsReport] = Field(description="in order; the last is what is shown")
    remedies: list[RemedyReport] = Field(
        default_factory=list,
        description="changes that make it start, by the plan that the log corrects",
    )

    @classmethod
    def of(cls, launches: tuple[LaunchFacts, ...], tried: Fixes | None = None) -> DiagnosisReport:
        """From a log that was read, and what was tried after it."""
        return cls(
            launches=[LaunchFactsReport.of(facts) for facts in launches],
            remedies=[RemedyReport.of(each) for each in tried.remedies] if tried else [],
        )
