"""Other ways to serve a model, as JSON."""

from __future__ import annotations

from pydantic import Field

from planner.recommendation.alternatives import Alternatives
from planner.recommendation.settle import Settled, Unfit
from planner.report.base import StrictModel
from planner.report.plan import PlanReport


class AlternativeReport(StrictModel):
    """Another way to serve the model."""

    what: str
    works: bool
    reason: str | None
    excess_bytes: float = Field(
        description="missing on each GPU for one request of that context; 0 where unknown"
    )
    context: int
    plan: PlanReport | None


def _why_not(result: Settled | Unfit) -> str:
    return result.reason if isinstance(result, Unfit) else result.memory.starts.reason


def alternative_reports(alternatives: Alternatives) -> list[AlternativeReport]:
    """Every way out as a row."""
    rows = []
    if alternatives.shorter is not None and isinstance(alternatives.shorter.result, Settled):
        rows.append(
            AlternativeReport(
                what=f"context {alternatives.shorter.context}",
                works=True,
                reason=None,
                excess_bytes=0,
                context=alternatives.shorter.context,
                plan=PlanReport.of(alternatives.shorter.result),
            )
        )
    for checkpoint in alternatives.checkpoints:
        result = checkpoint.result
        rows.append(
            AlternativeReport(
                what=checkpoint.card.model_id,
                works=checkpoint.works,
                reason=_why_not(result) if not checkpoint.works else None,
                excess_bytes=result.excess_bytes if isinstance(result, Unfit) else 0,
                context=checkpoint.context,
                plan=PlanReport.of(result) if isinstance(result, Settled) else None,
            )
        )
    more = [alternatives.more_gpus] if alternatives.more_gpus is not None else []
    for spec, settled in (*more, *alternatives.larger_gpus):
        rows.append(
            AlternativeReport(
                what=spec,
                works=True,
                reason=None,
                excess_bytes=0,
                context=settled.memory.config.max_model_len,
                plan=PlanReport.of(settled),
            )
        )
    return rows
