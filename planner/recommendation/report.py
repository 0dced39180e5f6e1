"""Searches as JSON: what was looked at for a model, and where a model stands in a ranking."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hardware_db import Rig
from planner.engine.releases import Release
from planner.recommendation.alternatives import Alternatives
from planner.recommendation.explain import explain
from planner.recommendation.placing import Placing
from planner.recommendation.search import Candidate, Rejected, Search
from planner.recommendation.settle import Settled, Unfit
from planner.recommendation.speculation import speculation_or_none
from planner.report import (
    ModelOnRigReport,
    PlanReport,
    QuantityReport,
    RigReport,
    ServingReport,
    SpeculationAdvice,
    StrictModel,
    alternative_reports,
    workload_report,
)
from planner.speed.acceptance import task_of
from planner.speed.capacity import Aims, plan_serving


class CandidateReport(StrictModel):
    """A checkpoint and a layout that work as asked."""

    model: str
    weight_format: str
    quantized_online: str | None = Field(description="what vLLM quantizes it to while loading")
    quality_loss: float = Field(description="points that the format costs")
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    kv_cache_dtype: str
    max_model_len: int
    kv_tokens: QuantityReport
    tokens_per_second_per_user: QuantityReport | None
    tokens_per_second_total: QuantityReport | None
    unbeaten: bool = Field(description="no other is at least as good in everything")

    @classmethod
    def of(cls, candidate: Candidate, *, unbeaten: bool) -> CandidateReport:
        """From the library's candidate."""
        settled, variant = candidate.settled, candidate.variant
        speed, layout = settled.speed, settled.layout
        return cls(
            model=variant.model_id,
            weight_format=variant.weight_format,
            quantized_online=variant.quantization,
            quality_loss=variant.loss.points,
            tensor_parallel_size=layout.tensor,
            pipeline_parallel_size=layout.pipeline,
            data_parallel_size=layout.data,
            kv_cache_dtype=settled.config.kv_cache_dtype,
            max_model_len=settled.memory.config.max_model_len,
            kv_tokens=QuantityReport.of(settled.memory.kv_tokens),
            tokens_per_second_per_user=QuantityReport.of(speed.per_user) if speed else None,
            tokens_per_second_total=QuantityReport.of(speed.total) if speed else None,
            unbeaten=unbeaten,
        )


class RejectedReport(StrictModel):
    """A checkpoint that does not do."""

    model: str
    weight_format: str
    reason: str

    @classmethod
    def of(cls, rejected: Rejected) -> RejectedReport:
        """From the library's."""
        variant = rejected.variant
        return cls(
            model=variant.model_id, weight_format=variant.weight_format, reason=rejected.reason
        )


class ChangeReport(StrictModel):
    """What a change of the question would bring."""

    what: str
    candidate: CandidateReport


class FindingReport(StrictModel):
    """What is worth knowing of the answer."""

    code: str
    text: str


class ModelSearchReport(ModelOnRigReport):
    """`vplan recommend --gpu RIG --model MODEL --json`."""

    pick: CandidateReport | None = None
    binding: str | None = Field(default=None, description="the constraint that holds it back")
    candidates: list[CandidateReport] = Field(default_factory=list)
    rejected: list[RejectedReport] = Field(default_factory=list)
    changes: list[ChangeReport] = Field(default_factory=list)
    findings: list[FindingReport] = Field(default_factory=list)


class PlacingReport(StrictModel):
    """`vplan recommend --gpu RIG --why MODEL --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["placing"] = "placing"
    model: str
    place: int | None
    ranked: int | None = Field(description="models that work, on this hardware")
    reason: str
    rejected: list[RejectedReport]
    plan: PlanReport | None

    @classmethod
    def of(cls, found: Placing) -> PlacingReport:
        """From the library's."""
        choice = found.choice
        return cls(
            model=found.model_id,
            place=found.place,
            ranked=found.ranked,
            reason=found.reason,
            rejected=[RejectedReport.of(each) for each in found.rejected],
            plan=PlanReport.of(choice.settled) if choice is not None else None,
        )


def model_on_rig_report(
    found: Search,
    rig: Rig,
    release: Release,
    alternatives: Alternatives | None,
    aims: Aims | None = None,
) -> ModelSearchReport:
    """A search for a model. `plan` is of what was named, or of the best for an objective."""
    named, pick = found.named, found.pick
    unfit = named if isinstance(named, Unfit) else None
    plan = named if isinstance(named, Settled) else None
    if pick is not None and found.requirements.objective is not None:
        plan = pick.settled
    reasons = explain(found, rig)
    choice = speculation_or_none(plan, found.requirements) if plan is not None else None
    unbeaten = found.frontier
    serving = None
    if plan is not None and plan.speed is not None:
        task = task_of(found.requirements.use_case)
        serving = plan_serving(plan.memory, plan.speed.workload, aims, task=task)
    return ModelSearchReport(
        vllm=release.name,
        rig=RigReport.of(rig),
        workload=workload_report(found.requirements),
        fits=unfit is None,
        reason=unfit.reason if unfit is not None else None,
        excess_bytes=unfit.excess_bytes if unfit is not None else 0,
        plan=PlanReport.of(plan) if plan is not None else None,
        alternatives=alternative_reports(alternatives) if alternatives is not None else [],
        speculation=SpeculationAdvice.of(choice) if choice is not None else None,
        serving=ServingReport.of(serving) if serving is not None else None,
        pick=CandidateReport.of(pick, unbeaten=pick in unbeaten) if pick is not None else None,
        binding=reasons.binding if reasons is not None else None,
        candidates=[CandidateReport.of(one, unbeaten=one in unbeaten) for one in found.candidates],
        rejected=[RejectedReport.of(each) for each in found.rejected],
        changes=[
            ChangeReport(what=each.what, candidate=CandidateReport.of(each.pick, unbeaten=True))
            for each in (reasons.changes if reasons is not None else ())
        ],
        findings=[
            FindingReport(code=each.code, text=each.text)
            for each in (reasons.findings if reasons is not None else ())
        ],
    )
