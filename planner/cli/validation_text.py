"""What `vplan validate` prints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from planner.cli.console import fail, print_json, say, say_item, say_verbatim, show
from planner.cli.format import gib, seconds
from planner.cli.status import Status

if TYPE_CHECKING:
    from planner.launch.preflight import Preflight
    from planner.launch.progress import Event
    from planner.launch.tries import Try
    from planner.launch.validation import Validation

_PAST_RUNS: Final = 50  # that are looked through for how long a start took
_COLOURS: Final = {"inside": "green", "outside": "yellow", "failed": "red"}


def refuse(preflight: Preflight, *, as_json: bool) -> int:
    """What is wrong with a command; nothing was started. The exit status."""
    if as_json:
        from planner.report.check import CheckReport

        print_json(CheckReport.of(preflight.check))
    else:
        from planner.cli.verdict import print_verdict

        print_verdict(preflight.check)
    for finding in preflight.findings:
        fail(f"{finding.text} ({finding.fix})" if finding.fix else finding.text)
    fail("nothing was started")
    return Status.NO


def announce(preflight: Preflight, change: str | None, number: int, *, dry: bool = False) -> None:
    """What will be run, or would be."""
    installation = preflight.installation
    if change is not None:
        say()
        say(f"Try {number}: {change}", "bold")
    else:
        build = ", the build for CPUs" if installation.is_cpu_build else ""
        where = preflight.check.rig.describe()
        say(f"vLLM {installation.release}{build}, on {where}", "bold")
    say("Would run, with a random API key:" if dry else "Runs, with a random API key:")
    say_verbatim(f"  {preflight.shown()}")
    _announce_time(preflight)
    for finding in (*preflight.findings, *preflight.check.findings):
        if finding.severity.value == "warning":
            say_item(f"warning: {finding.text}", "yellow")


def _announce_time(preflight: Preflight) -> None:
    from planner.launch.estimate import start_time
    from planner.launch.history import past_runs

    download = preflight.download
    if download is not None:
        size = f"{gib(download.size)} GiB" if download.size is not None else "an unknown size"
        say(f"The weights are to be fetched first: {size}.")
    if preflight.check.memory is not None:
        latest = islice(past_runs(), _PAST_RUNS)
        time = start_time(preflight.check.memory, (past.report for past in latest))
        say(f"Ready after some {time.low:.0f} to {time.high:.0f} s, by {time.why}.")


def announce_attached(preflight: Preflight, url: str) -> None:
    """What is asked, and what it is compared with."""
    release, where = preflight.installation.release, preflight.check.rig.describe()
    say(f"vLLM {release} at {url}, taken to be on {where}", "bold")
    say("Planned is:")
    say_verbatim(f"  {preflight.shown()}")
    for finding in (*preflight.findings, *preflight.check.findings):
        if finding.severity.value != "info" or finding.code == "attached":
            say_item(finding.text, "yellow")


def progress(event: Event) -> None:
    """A line for each step."""
    from planner.launch.progress import Asking, Reached

    if isinstance(event, Reached):
        say(f"{event.seconds:6.1f} s  {event.milestone.label}")
    elif isinstance(event, Asking):
        say(f"          {event.text}")


def print_run(run: Validation) -> None:
    """A launch beside its plan."""
    from planner.launch.explain import explain
    from planner.launch.markdown import unseen_line, verdict_line

    say()
    if run.terms:
        _print_terms(run)
    missing = unseen_line(run)
    if missing:
        say(missing, "dim")
    _print_requests(run)
    _print_usage(run)
    if str(run.spent):
        say(f"Took: {run.spent}", "dim")
    text = verdict_line(run)
    say(f"{text[0].upper()}{text[1:]}.", _COLOURS[run.verdict.value])
    if run.failure is not None:
        for change in explain(run.failure, run.facts).changes:
            say_item(f"try: {change}")
    if run.observations:
        learned = ", ".join(dict.fromkeys(seen.term.label for seen in run.observations))
        say(f"Learned for the next plans: {learned} (vplan calibration)", "dim")
    if run.kept is not None:
        say(f"It runs on at {run.kept.url}; its key is in {run.kept.key_file}. To end it:")
        say_verbatim(f"  kill {run.kept.pid}")
    say("Report and log:")
    say_verbatim(f"  {run.folder}")


def _print_terms(run: Validation) -> None:
    from rich.table import Table

    from planner.launch.markdown import row

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "plan", "band", "measured", "difference", "inside"):
        right = heading in ("plan", "measured", "difference")
        table.add_column(heading, justify="right" if right else "left")
    for term in run.terms:
        table.add_row(*row(term), style=None if term.inside else "red")
    show(table)
    say()


def _print_requests(run: Validation) -> None:
    from planner.launch.markdown import speculation_line

    probe = run.probe
    if probe is None:
        return
    if probe.tpot is not None and probe.ttft is not None:
        say(
            f"{len(probe.completions)} requests answered: first token after "
            f"{seconds(probe.ttft)}, then {probe.tpot * 1000:.1f} ms a token"
        )
    for result in probe.levels:
        level = result.level
        at_once = f"{level.concurrency} at once" if level.concurrency > 1 else "one at a time"
        each = (
            f", {result.median_tpot * 1000:.1f} ms a token"
            if result.median_tpot is not None
            else ""
        )
        failed = f", {result.failed} failed" if result.failed else ""
        say(
            f"{result.completed} requests of {level.prompt_tokens} + {level.output_tokens} tokens, "
            f"{at_once}: {result.output_rate:.1f} tok/s, first token after "
            f"{seconds(result.median_ttft)}{each} (medians, by {result.by}{failed})"
        )
    told = probe.speculation
    if told is not None and told.drafts:
        say(speculation_line(told.drafts, told.acceptance_length, told.acceptance_rates))


def _print_usage(run: Validation) -> None:
    usage = run.usage
    if usage.peak is None:
        return
    power = (
        f", {usage.mean_watts:.0f} W under load (at most {usage.peak_watts:.0f} W)"
        if usage.mean_watts is not None and usage.peak_watts is not None
        else ""
    )
    say(f"In use, at most: {gib(usage.peak)} GiB{power}")
    if usage.kept and run.kept is None:
        say(f"{gib(usage.kept)} GiB more than before are still in use", "yellow")


def print_tries(done: Sequence[Try]) -> None:
    """All tries, and which command runs."""
    say()
    say("Tries:", "bold")
    for this in done:
        say_item(f"{this.change or 'as given'}: {this.reason}")
    last = done[-1]
    if last.runs:
        say("This one runs:", "green")
        say_verbatim(f"  {last.preflight.shown()}")
