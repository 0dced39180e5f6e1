"""Why: findings, and every term of the budget with its band, basis and source."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from planner.cli.format import gib, gib_band
from planner.findings import Finding, Severity
from planner.memory.budget import budget
from planner.quantity import Quantity
from planner.tui.budget import LOOKS
from planner.tui.outcome import Outcome
from planner.tui.show import DIM, columns, plain
from planner.tui.widgets.panel import Panel

_SIGNS: Final = {
    Severity.ERROR: ("✘ error", "$text-error"),
    Severity.WARNING: ("▲ warning", "$text-warning"),
    Severity.INFO: ("· note", DIM),
}


class WhyPanel(Panel):
    """Findings first, then terms."""

    BORDER_TITLE = "Why"

    pasted: tuple[Finding, ...] = ()  # about a pasted command, until another is pasted

    def draw(self, outcome: Outcome, width: int) -> None:
        """Show what was found and what the budget is made of."""
        blocks = []
        if self.pasted:
            blocks.append(_findings("The pasted command", self.pasted))
        if outcome.findings:
            blocks.append(_findings("Findings", outcome.findings))
        blocks.append(_terms(outcome, width))
        self.update(Content("\n\n").join(blocks))


def _findings(title: str, findings: tuple[Finding, ...]) -> Content:
    lines = [Content.assemble((title, "bold"))]
    for finding in findings:
        sign, style = _SIGNS[finding.severity]
        fix = f"\n    {plain(finding.fix)}" if finding.fix else ""
        lines.append(Content.assemble((f"{sign}: ", style), plain(finding.text), (fix, "italic")))
    return Content("\n").join(lines)


def _terms(outcome: Outcome, width: int) -> Content:
    memory = outcome.memory
    if memory is None:
        return Content.assemble(("no budget: vLLM refuses before it loads", DIM))
    heading = ("", "GiB", "", "basis", "from")
    rows: list[tuple[tuple[str, str], ...]] = [tuple((text, DIM) for text in heading)]
    rows += [
        (
            (part.name, f"bold {LOOKS[part.letter][1]}"),
            *_size(part.size),
            (part.size.basis.label, ""),
            (plain(part.source), DIM),
        )
        for part in budget(memory)
    ]
    share = memory.config.gpu_memory_utilization
    total = gib(memory.device_total.value)
    rows.append(
        (
            ("asked for", "bold"),
            *_size(memory.requested),
            (memory.requested.basis.label, ""),
            (f"{total} GiB × {share:g}", DIM),
        )
    )
    backends = ", ".join(backend.name for backend in memory.backends)
    return Content("\n").join(
        [
            Content.assemble(("Terms of the budget, on the tightest GPU", "bold")),
            columns(rows, width=width, right=(1,)),
            Content.assemble((f"attention backends: {plain(backends)}", DIM)),
        ]
    )


def _size(quantity: Quantity) -> tuple[tuple[str, str], tuple[str, str]]:
    """In GiB, and the band."""
    size, _, band = gib_band(quantity).partition(" ")
    return (size, "bold"), (band, "")
