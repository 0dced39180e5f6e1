"""`vplan validate`: run the command for a moment, and show the plan beside what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli.console import fail, print_json, say, say_item, say_verbatim, show
from planner.cli.status import Status
from planner.errors import PlanError

if TYPE_CHECKING:
    from planner.launch.preflight import Preflight
    from planner.launch.progress import Event
    from planner.launch.validation import Validation

_STATUS: Final = {
    "inside": Status.YES,
    "outside": Status.NO,
    "failed": Status.LAUNCH_FAILED,
}


def validate(
    command: Annotated[
        list[str] | None, typer.Argument(help='The command after "--", or as one quoted text.')
    ] = None,
    gpu: Annotated[
        str, typer.Option("--gpu", "-g", help="auto: the GPUs of this machine; or cpu.")
    ] = "auto",
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the server running if all went well.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until the server must be ready.")
    ] = 1800,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be run, and run nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Validate a launch: vplan validate -- vllm serve MODEL --option value ...

    Starts the command on this machine, on the loopback interface with a random API key, reads what
    vLLM allocated, sends a few requests and stops it. Exit status: 0 every term of the plan is
    inside its band, 1 one is not or the plan says that it does not start, 4 the launch failed.
    """
    from planner.launch.preflight import prepare

    if not command:
        raise PlanError("give a command: vplan validate -- vllm serve MODEL ...")
    preflight = prepare(command, gpu)
    if preflight.forbidden:
        return _refuse(preflight, as_json=as_json)
    if dry_run:
        _announce(preflight)
        return Status.YES
    from planner.launch.history import remember
    from planner.launch.progress import ignore
    from planner.launch.report import ValidationReport, new_folder, verdict_line, write_files
    from planner.launch.validation import validate as run_validation

    if not as_json:
        _announce(preflight)
    run = run_validation(
        preflight,
        new_folder(preflight.check.command.model),
        timeout=timeout,
        keep=keep,
        observer=ignore if as_json else _progress,
    )
    write_files(run)
    remember(run, fail)
    if as_json:
        print_json(ValidationReport.of(run))
    else:
        _print(run)
    status = _STATUS[run.verdict.value]
    if status is not Status.YES:
        fail(verdict_line(run))
    return status


def _refuse(preflight: Preflight, *, as_json: bool) -> int:
    """What is wrong with the command; nothing was started."""
    if as_json:
        from planner.diagnosis.report import CheckReport

        print_json(CheckReport.of(preflight.check))
    else:
        from planner.cli.verdict import print_verdict

        print_verdict(preflight.check)
    for finding in preflight.findings:
        fail(f"{finding.text} ({finding.fix})" if finding.fix else finding.text)
    fail("nothing was started")
    return Status.NO


def _announce(preflight: Preflight) -> None:
    installation = preflight.installation
    build = ", the build for CPUs" if installation.is_cpu_build else ""
    say(f"vLLM {installation.release}{build}, on {preflight.check.rig.describe()}", "bold")
    say("Runs, with a random API key:")
    say_verbatim(f"  {preflight.shown()}")
    for finding in preflight.check.findings:
        if finding.severity.value == "warning":
            say_item(f"warning: {finding.text}", "yellow")


def _progress(event: Event) -> None:
    from planner.launch.progress import Reached

    if isinstance(event, Reached):
        say(f"{event.seconds:6.1f} s  {event.milestone.label}")


def _print(run: Validation) -> None:
    from rich.table import Table

    from planner.launch.explain import explain
    from planner.launch.report import row, verdict_line

    say()
    if run.terms:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("", "plan", "band", "measured", "difference", "inside"):
            right = heading in ("plan", "measured", "difference")
            table.add_column(heading, justify="right" if right else "left")
        for term in run.terms:
            table.add_row(*row(term), style=None if term.inside else "red")
        show(table)
        say()
    if run.probe is not None and run.probe.tpot is not None and run.probe.ttft is not None:
        say(
            f"{len(run.probe.completions)} requests answered: first token after "
            f"{run.probe.ttft * 1000:.0f} ms, then {run.probe.tpot * 1000:.1f} ms a token"
        )
    colour = {"inside": "green", "outside": "yellow", "failed": "red"}[run.verdict.value]
    text = verdict_line(run)
    say(f"{text[0].upper()}{text[1:]}.", colour)
    if run.failure is not None:
        say_item(f"vLLM says: {run.failure.message}")
        for change in explain(run.failure).changes:
            say_item(f"try: {change}")
    if run.kept is not None:
        say(f"It runs on at {run.kept.url}; its key is in {run.kept.key_file}. To end it:")
        say_verbatim(f"  kill {run.kept.pid}")
    say("Report and log:")
    say_verbatim(f"  {run.folder}")
