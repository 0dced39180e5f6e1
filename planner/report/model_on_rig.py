"""What `vplan recommend --gpu RIG --model MODEL --json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hardware_db import Rig
from planner.engine.releases import Release
from planner.recommendation.alternatives import Alternatives
from planner.recommendation.explain import explain
from planner.recommendation.search import Search
from planner.recommendation.settle import Settled, Unfit
from planner.recommendation.speculation import speculation_or_none
from planner.report.alternatives import AlternativeReport, alternative_reports
from planner.report.base import StrictModel
from planner.report.candidates import CandidateReport, RejectedReport
from planner.report.findings import FindingReport
from planner.report.hardware import RigReport
from planner.report.plan import PlanReport
from planner.report.speculation import SpeculationAdvice
from planner.report.speed import ServingReport
from planner.report.workload import WorkloadReport
from planner.speed.acceptance import task_of
from planner.speed.capacity import Aims, plan_serving


class SensitivityReport(StrictModel):
    """What a change of the question would bring."""

    what: str
    candidate: CandidateReport


class ModelOnRigReport(StrictModel):
    """`vplan recommend --gpu RIG --model MODEL --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["model on rig"] = "model on rig"
    vllm: str
    rig: RigReport
    workload: WorkloadReport
    fits: bool
    reason: str | None
    excess_bytes: float = Field(
        description="missing on each GPU for one request of that context; 0 where unknown"
    )
    plan: PlanReport | None
    alternatives: list[AlternativeReport]
    speculation: SpeculationAdvice | None = None
    serving: ServingReport | None = None
    pick: CandidateReport | None = None
    binding: str | None = Field(default=None, description="the constraint that holds it back")
    replicas: list[str] = Field(
        default_factory=list,
        description="data parallelism against one engine over all GPUs, in numbers",
    )
    candidates: list[CandidateReport] = Field(default_factory=list)
    rejected: list[RejectedReport] = Field(default_factory=list)
    changes: list[SensitivityReport] = Field(default_factory=list)
    findings: list[FindingReport] = Field(default_factory=list)


def model_on_rig_report(
    found: Search,
    rig: Rig,
    release: Release,
    alternatives: Alternatives | None,
    aims: Aims | None = None,
) -> ModelOnRigReport:
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
    return ModelOnRigReport(
        vllm=release.name,
        rig=RigReport.of(rig),
        workload=WorkloadReport.of(found.requirements),
        fits=unfit is None,
        reason=unfit.reason if unfit is not None else None,
        excess_bytes=unfit.excess_bytes if unfit is not None else 0,
        plan=PlanReport.of(plan) if plan is not None else None,
        alternatives=alternative_reports(alternatives) if alternatives is not None else [],
        speculation=SpeculationAdvice.of(choice) if choice is not None else None,
        serving=ServingReport.of(serving) if serving is not None else None,
        pick=CandidateReport.of(pick, unbeaten=pick in unbeaten) if pick is not None else None,
        binding=reasons.binding if reasons is not None else None,
        replicas=list(reasons.replicas) if reasons is not None else [],
        candidates=[CandidateReport.of(one, unbeaten=one in unbeaten) for one in found.candidates],
        rejected=[RejectedReport.of(each) for each in found.rejected],
        changes=[
            SensitivityReport(
                what=each.what, candidate=CandidateReport.of(each.pick, unbeaten=True)
            )
            for each in (reasons.changes if reasons is not None else ())
        ],
        findings=[
            FindingReport.of(each) for each in (reasons.findings if reasons is not None else ())
        ],
    )
