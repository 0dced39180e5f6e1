"""The report of a validated launch for people, and its words."""

from __future__ import annotations

from collections.abc import Sequence

from planner.launch.explain import WHOLE, explain, said
from planner.launch.load import LevelResult
from planner.launch.terms import Term, Unit
from planner.launch.validation import Validation


def markdown(run: Validation) -> str:
    """The report for people, to paste into an issue."""
    check = run.preflight.check
    lines = [
        f"# {check.card.model_id} on {check.rig.describe()}",
        "",
        f"vLLM {run.preflight.installation.release}, "
        f"{run.began.isoformat(timespec='seconds')}: **{verdict_line(run)}**",
        "",
        "```sh",
        run.preflight.shown(),
        "```",
    ]
    if run.terms:
        lines += [
            "",
            "| term | plan | band | measured | difference | inside |",
            "| --- | ---: | --- | ---: | ---: | --- |",
        ]
        lines += [f"| {' | '.join(row(term))} |" for term in run.terms]
    missing = unseen_line(run)
    lines += ["", missing] if missing else []
    if run.probe is not None and run.probe.levels:
        lines += [
            "",
            "| at once | requests | tokens | tok/s | first token | per token |",
            "| ---: | ---: | --- | ---: | ---: | ---: |",
        ]
        lines += [_level_row(result) for result in run.probe.levels]
    if run.probe is not None and run.probe.speculation is not None:
        told = run.probe.speculation
        line = speculation_line(told.drafts, told.acceptance_length, told.acceptance_rates)
        lines += ["", line] if line else []
    if str(run.spent):
        lines += ["", f"Took: {run.spent}"]
    if run.failure is not None:
        lines += ["", said(run.failure, WHOLE)]
    return "\n".join(lines) + "\n"


def _level_row(result: LevelResult) -> str:
    level = result.level
    each = f"{result.median_tpot * 1000:.1f} ms" if result.median_tpot is not None else "-"
    return (
        f"| {level.concurrency} | {result.completed} | {level.prompt_tokens} + "
        f"{level.output_tokens} | {result.output_rate:.1f} | {result.median_ttft * 1000:.0f} ms | "
        f"{each} |"
    )


def unseen_line(run: Validation) -> str:
    """What the plan has, and nothing told; empty if everything was seen."""
    if not run.unseen:
        return ""
    why = "vLLM printed nothing of it"
    if run.attached and not run.facts.ranks:
        why = "only the server's log tells, --log FILE"
    return f"Not measured ({why}): {', '.join(run.unseen)}"


def speculation_line(drafts: int, length: float | None, rates: Sequence[float]) -> str:
    """What became of drafts, in a sentence; empty before the first."""
    if length is None:
        return ""
    places = f"; by position {', '.join(f'{100 * rate:.0f} %' for rate in rates)}" if rates else ""
    return f"Speculation: acceptance length {length:.2f} over {drafts:,} drafts{places}"


def verdict_line(run: Validation) -> str:
    """The verdict in a few words; of a failure with what vLLM says."""
    if run.failure is not None:
        return f"the launch failed: {explain(run.failure).sentence}"
    outside = [term.name for term in run.terms if not term.inside]
    if outside:
        return f"outside the plan's band: {', '.join(outside)}"
    return f"all {len(run.terms)} terms are inside the plan's bands"


def row(term: Term) -> tuple[str, ...]:
    """A term as the cells of a table: name, plan, band, measured, difference, inside."""
    plan, unit = term.plan, term.unit
    exact = plan.low == plan.high
    low, high = _text(plan.low, unit).partition(" ")[0], _text(plan.high, unit)
    band = plan.basis.label if exact else f"{low} to {high}"
    return (
        term.name,
        _text(plan.value, unit),
        band,
        _text(term.measured, unit),
        _signed(term.difference, unit),
        "yes" if term.inside else "NO",
    )


def _text(value: float, unit: Unit) -> str:
    match unit:
        case Unit.BYTES:
            return f"{value / 2**30:.2f} GiB"
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.RATIO:
            return f"{value:.2f}"
        case Unit.SECONDS:
            return f"{value * 1000:.1f} ms"


def _signed(value: float, unit: Unit) -> str:
    text = _text(abs(value), unit)
    is_zero = not any(digit in text for digit in "123456789")
    return "0" if is_zero else f"{'-' if value < 0 else '+'}{text}"
