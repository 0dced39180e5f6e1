"""`vplan calibration`: what earlier validations taught, to look at, forget, take along."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.console import fail, print_json, say, say_item, say_verbatim, show
from planner.cli.options import AsJson
from planner.errors import PlanError

if TYPE_CHECKING:
    from planner.calibration import Observation
    from planner.calibration_store import CalibrationStore, Run

calibration = typer.Typer(
    help="What earlier runs of vplan validate taught: list it, show a run, forget, take it along.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


@calibration.callback(invoke_without_command=True)
def runs(context: typer.Context) -> None:
    """What earlier runs of vplan validate taught: list it, show a run, forget, take it along."""
    if context.invoked_subcommand is None:
        list_runs()


def _store() -> CalibrationStore:
    from planner.launch.history import open_store

    return open_store(fail)


@calibration.command("list")
def list_runs(as_json: AsJson = False) -> None:
    """List the runs, and what they come to for the next plan."""
    runs = _store().runs()
    if as_json:
        from planner.report.calibration import CalibrationReport

        print_json(CalibrationReport.of(runs))
        return
    if not runs:
        say("Nothing was learned yet: vplan validate teaches.")
        return
    _print_runs(runs)
    say()
    _print_lessons(runs)


@calibration.command("show")
def show_run(number: Annotated[int, typer.Argument(help="As listed.")]) -> None:
    """Show what one run taught."""
    run = _numbered(_store().runs(), number)
    say(f"{run.model} on {run.gpu}, vLLM {run.release}, {run.began}: {run.verdict}", "bold")
    say_verbatim(run.command)
    say(f"From {run.source}.")
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "fitted", "measured", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    for seen in run.observations:
        label = f"{seen.term.label} ({seen.subject})" if seen.subject else seen.term.label
        factor = f"x {seen.measured / seen.fitted:.2f}" if seen.fitted else ""
        table.add_row(label, _size(seen, seen.fitted), _size(seen, seen.measured), factor)
    show(table)


@calibration.command("forget")
def forget(
    numbers: Annotated[list[int] | None, typer.Argument(help="Runs, as listed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Forget runs: plans no longer use what they taught. Their reports stay."""
    store = _store()
    if everything == bool(numbers):
        raise PlanError("name the runs to forget, as listed, or give --all")
    runs = store.runs()
    for number in numbers or ():
        _numbered(runs, number)
    count = store.forget(None if everything else numbers)
    say(f"Forgot {count} run{'s' if count != 1 else ''}.")


@calibration.command("export")
def export(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help='"-" prints it.')] = "-",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write all runs as JSON, for another machine with such GPUs. Commands are in it."""
    from planner.calibration_store import exported
    from planner.files import write_file

    text = exported(_store().runs()) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        write_file(Path(file), text, force=force)


@calibration.command("import")
def import_runs(file: Annotated[str, typer.Argument(metavar="FILE|-")]) -> None:
    """Read runs that were exported; those that are here already are left as they are."""
    from planner.calibration_store import imported

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except UnicodeDecodeError:
        raise PlanError(f"{file} is no export of vplan calibration") from None
    except OSError as error:
        raise PlanError(f"{file} cannot be read: {error.strerror}") from None
    runs = imported(text, "standard input" if file == "-" else Path(file).name)
    count = _store().add(runs)
    say(f"{count} of {len(runs)} run{'s were' if len(runs) != 1 else ' was'} new.")


def _numbered(runs: list[Run], number: int) -> Run:
    for run in runs:
        if run.number == number:
            return run
    known = ", ".join(str(run.number) for run in runs) or "there is none yet"
    raise PlanError(f"no run {number}; the runs: {known}")


def _print_runs(runs: list[Run]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("run", "began", "GPU", "vLLM", "model", "verdict"):
        table.add_column(heading, justify="right" if heading == "run" else "left")
    for run in runs:
        began = run.began[:16].replace("T", " ")
        table.add_row(str(run.number), began, run.gpu, run.release, run.model, run.verdict)
    show(table)


def _print_lessons(runs: list[Run]) -> None:
    from planner.calibration import Calibration
    from planner.engine.releases import find_release

    taught = Calibration(run.lesson for run in runs)
    say("Plans of these GPUs and releases are corrected:", "bold")
    for gpu, name in dict.fromkeys((run.gpu, run.release) for run in runs):
        release = find_release(name)
        terms = ", ".join(term.label for term in taught.terms(gpu, release))
        count = taught.runs(gpu, release)
        by = f"{count} run{'s' if count != 1 else ''}"
        say_item(f"{gpu}, vLLM {name} and those like it: {terms or 'nothing'} ({by})")


def _size(seen: Observation, value: float) -> str:
    from planner.cli.format import gib, seconds

    in_seconds = seen.term.value in ("tpot", "ttft")
    return seconds(value) if in_seconds else f"{gib(value)} GiB"
