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
        what = f"context {alternatives.shorter.context}"
        rows.append(_works(what, alternatives.shorter.result))
    if alternatives.fewer is not None:
        at_once, settled = alternatives.fewer
        rows.append(_works(f"concurrency {at_once}", settled))
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
        rows.append(_works(spec, settled))
    return rows


def _works(what: str, settled: Settled) -> AlternativeReport:
    return AlternativeReport(
        what=what,
        works=True,
        reason=None,
        excess_bytes=0,
        context=settled.memory.config.max_model_len,
        plan=PlanReport.of(settled),
    )
