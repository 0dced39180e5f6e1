"""What `vplan recommend --gpu RIG --json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.recommendation.rank import Recommendation
from planner.recommendation.speculation import speculation_or_none
from planner.report.base import QuantityReport, StrictModel
from planner.report.hardware import RigReport
from planner.report.plan import PlanReport
from planner.report.speculation import SpeculationAdvice
from planner.report.workload import WorkloadReport


class QualityReport(StrictModel):
    """How good the model is, from published benchmarks."""

    score: float
    standard_error: float
    mode: str
    evidence: str
    newest_evidence: str | None


class ChoiceReport(StrictModel):
    """One row of the ranking."""

    tier: int
    base_model: str
    quality: QualityReport
    seconds_per_answer: QuantityReport | None
    plan: PlanReport


class RankingReport(StrictModel):
    """`vplan recommend --gpu RIG --json`."""

    schema_version: Literal[1] = 1
    kind: Literal["ranking"] = "ranking"
    vllm: str
    rig: RigReport
    workload: WorkloadReport
    choices: list[ChoiceReport]
    nearest_miss: str | None
    speculation: SpeculationAdvice | None = Field(None, description="for the first choice")

    @classmethod
    def of(cls, recommendation: Recommendation) -> RankingReport:
        """From a recommendation."""
        choices = []
        for choice in recommendation.choices:
            quality = choice.quality
            seconds = choice.seconds_per_answer
            choices.append(
                ChoiceReport(
                    tier=choice.tier,
                    base_model=choice.base_id,
                    quality=QualityReport(
                        score=quality.score,
                        standard_error=quality.error,
                        mode=quality.mode,
                        evidence=quality.evidence,
                        newest_evidence=quality.newest_evidence,
                    ),
                    seconds_per_answer=QuantityReport.of(seconds) if seconds else None,
                    plan=PlanReport.of(choice.settled),
                )
            )
        miss = recommendation.smallest_unfit
        return cls(
            vllm=recommendation.release.name,
            rig=RigReport.of(recommendation.rig),
            workload=WorkloadReport.of(recommendation.requirements),
            choices=choices,
            nearest_miss=f"{miss[0]}: {miss[1]}" if miss else None,
            speculation=_advice(recommendation),
        )


def _advice(recommendation: Recommendation) -> SpeculationAdvice | None:
    if not recommendation.choices:
        return None
    settled, wanted = recommendation.choices[0].settled, recommendation.requirements
    choice = speculation_or_none(settled, wanted)
    return SpeculationAdvice.of(choice) if choice is not None else None
