"""A plan beside what its launch came to."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content
from textual.widgets import Static

from planner.launch.markdown import row, speculation_line
from planner.launch.terms import Term, Unit
from planner.quantity import Basis, Quantity
from planner.report.validation import TermReport, ValidationReport
from planner.tui.show import DIM, columns, plain

SIGNS = {
    "inside": ("✔", "as planned", "yes", "$text-success"),
    "outside": ("▲", "not as planned", "risky", "$text-warning"),
    "failed": ("✘", "failed", "no", "$text-error"),
}


class VerifiedCard(Static):
    """The table of terms, or what failed; what was asked of the server."""

    def show(self, report: ValidationReport) -> None:
        """Show a report."""
        began = report.began.replace("T", " ").removesuffix("+00:00")
        self.border_title = f"{report.model.id}, vLLM {report.vllm}, {began} UTC"
        blocks = [terms_table(map(_term, report.terms))] if report.terms else []
        if report.failure is not None:
            if not report.failure.said:  # which the verdict holds
                blocks.append(Content(plain(report.failure.message)))
            blocks += [
                Content.assemble(("try: ", "bold"), plain(c)) for c in report.failure.changes
            ]
        answers = _answers(report)
        if answers:
            blocks.append(Content.assemble((answers, DIM)))
        blocks.append(Content.assemble((f"kept in {plain(report.folder)}", DIM)))
        self.update(Content("\n").join(blocks))


def summary(report: ValidationReport) -> str:
    """What came of it, in a few words."""
    if report.failure is not None:
        return "; ".join(filter(None, (report.failure.meaning, report.failure.said)))
    outside = [term.name for term in report.terms if not term.inside]
    if outside:
        return f"outside the plan's band: {', '.join(outside)}"
    return f"all {len(report.terms)} terms are inside the plan's bands"


def terms_table(terms: Iterable[Term]) -> Content:
    """Each term as it was planned, and as it was measured."""
    heading = ("", "plan", "band", "measured", "difference", "inside")
    rows = [tuple((text, DIM) for text in heading)]
    for term in terms:
        name, plan, band, measured, difference, _ = row(term)
        inside = ("✔", "$text-success") if term.inside else ("✘ NO", "$text-error")
        rows.append(
            ((name, ""), (plan, ""), (band, DIM), (measured, "bold"), (difference, ""), inside)
        )
    return columns(rows, right=(1, 3, 4))


def _term(report: TermReport) -> Term:
    plan = report.plan
    planned = Quantity(plan.value, plan.low, plan.high, Basis[plan.basis.upper()])
    return Term(report.name, Unit(report.unit), planned, report.measured)


def _answers(report: ValidationReport) -> str:
    parts = []
    if report.ready_seconds is not None:
        parts.append(f"ready after {report.ready_seconds:.0f} s")
    if report.completions:
        parts.append(f"{len(report.completions)} requests answered")
        last = report.completions[-1]
        if last.tpot is not None:
            parts.append(
                f"first token after {last.ttft * 1000:.0f} ms, then {last.tpot * 1000:.1f} ms each"
            )
    told = report.speculation
    drafts = (
        speculation_line(told.drafts, told.acceptance_length, told.acceptance_rates) if told else ""
    )
    return "\n".join(filter(None, ("; ".join(parts), drafts)))
