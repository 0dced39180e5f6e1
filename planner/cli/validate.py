"""`vplan validate`: run the command for a moment, and show the plan beside what it came to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from planner.cli.console import fail, print_json
from planner.cli.options import (
    AsJson,
    Context,
    OutputTokens,
    PromptTokens,
    UseCase,
    asked_context,
    asked_load,
)
from planner.cli.status import Status
from planner.errors import PlanError

if TYPE_CHECKING:
    from model_cards import ModelCard
    from planner.launch.facts import LaunchFacts
    from planner.launch.preflight import Preflight
    from planner.launch.tries import Try
    from planner.launch.validation import Validation
    from planner.recommendation.requirements import Requirements
    from planner.report.validation import ValidationReport
    from planner.workload import Workload

_STATUS: Final = {
    "inside": Status.YES,
    "outside": Status.NO,
    "failed": Status.LAUNCH_FAILED,
}


class Options(Struct, frozen=True):
    """How to launch, whatever is launched."""

    gpu: str = "auto"
    launcher: tuple[str, ...] = ()
    keep: bool = False
    timeout: float = 1800
    requests: int | None = None
    retries: int = 0
    dry_run: bool = False
    as_json: bool = False


def validate(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help='The command after "--", or as one quoted text; with --model more of its options.'
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Validate the recommended command of this model."),
    ] = None,
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu",
            "-g",
            help="auto: the NVIDIA GPUs of this machine; cpu; or what else it has, as in 2xmi300x.",
        ),
    ] = "auto",
    attach: Annotated[
        str | None,
        typer.Option(
            help="Ask a server that runs already instead, at this URL; its key is taken from "
            "VLLM_API_KEY."
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="With --attach: the log of that server, which alone tells what its weights and "
            "buffers take.",
        ),
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(
            help='What starts vLLM: the folder of its environment, "uv run", "docker run --gpus '
            'all vllm/vllm-openai:v0.19.1".'
        ),
    ] = None,
    context: Context = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-n", help="Requests at the same time; 8 if left out."),
    ] = None,
    use_case: UseCase = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    requests: Annotated[
        int | None,
        typer.Option(min=0, help="Requests to send at each level of concurrency; 0: no load."),
    ] = None,
    retry: Annotated[
        int, typer.Option(min=0, help="If it fails, try so many corrected commands.")
    ] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the server running if all went well.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until the server must be ready.")
    ] = 1800,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be run, and run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Validate a launch: vplan validate -- vllm serve MODEL --option value ...

    Starts the command on this machine, on the loopback interface with a random API key, reads what
    vLLM allocated, sends requests and stops it. With --model it starts the recommended command.
    Exit status: 0 every term of the plan is inside its band, 1 one is not or the plan says that it
    does not start, 4 the launch failed.
    """
    words = list(command or ())
    options = Options(
        gpu,
        _words(launcher),
        keep,
        timeout,
        requests,
        retry,
        dry_run,
        as_json,
    )
    workload = _workload(use_case, concurrency, prompt_tokens, output_tokens)
    if attach is not None:
        if model is not None or launcher is not None or keep or retry:
            raise PlanError("--attach asks a server that runs: nothing of it is chosen or changed")
        return _attached(attach, words, workload, options, log)
    if log is not None:
        raise PlanError("--log goes with --attach; for a log alone there is vplan diagnose")
    if model is not None:
        from model_cards import open_card
        from planner.recommendation.requirements import Requirements

        load = workload or asked_load(use_case, None)
        needs = Requirements(load, use_case or "chat", asked_context(context))
        return validate_model(open_card(model), needs, options, words)
    if not words:
        raise PlanError("give a command: vplan validate -- vllm serve MODEL ...; or --model MODEL")
    return validate_command(words, workload, options)


def _words(launcher: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(launcher or ""))
    except ValueError as error:
        raise PlanError(f"--launcher cannot be read: {error}") from None


def validate_model(
    card: ModelCard, requirements: Requirements, options: Options, more: Sequence[str] = ()
) -> int:
    """Launch the recommended command of a model; the exit status."""
    from planner.launch.recommended import command_of, recommended_here
    from planner.recommendation.settle import Unfit

    result = recommended_here(card, options.gpu, requirements, options.launcher)
    if isinstance(result, Unfit):
        fail(f"{card.model_id} does not fit here as asked: {result.reason}")
        fail("nothing was started")
        return Status.NO
    return validate_command(command_of(result, more), requirements.workload, options)


def validate_command(words: Sequence[str], workload: Workload | None, options: Options) -> int:
    """Launch a command, and with retries corrected ones; the exit status."""
    from planner.cli.validation_text import announce, print_run, progress, refuse
    from planner.launch.preflight import prepare
    from planner.launch.progress import ignore
    from planner.launch.run_files import new_folder
    from planner.launch.tries import tries
    from planner.launch.validation import validate as run_validation

    def examine(words: Sequence[str]) -> Preflight:
        return prepare(words, options.gpu, launcher=options.launcher, workload=workload)

    def launch(preflight: Preflight, change: str | None, number: int) -> Validation:
        if not options.as_json:
            announce(preflight, change, number)
        run = run_validation(
            preflight,
            new_folder(preflight.check.command.model),
            timeout=options.timeout,
            keep=options.keep,
            requests=options.requests,
            observer=ignore if options.as_json else progress,
        )
        _kept_in_mind(run)
        return run

    if options.dry_run:
        preflight = examine(words)
        if preflight.forbidden:
            return refuse(preflight, as_json=options.as_json)
        announce(preflight, None, 1, dry=True)
        return Status.YES
    done: list[Try] = []
    for this in tries(words, options.retries, examine, launch):
        done.append(this)
        if options.as_json:
            continue
        if this.run is None:
            refuse(this.preflight, as_json=False)
        else:
            print_run(this.run)
    return _conclude(done, options)


def _conclude(done: Sequence[Try], options: Options) -> int:
    """What all tries came to."""
    from planner.cli.validation_text import print_tries, refuse
    from planner.launch.markdown import verdict_line

    last = done[-1]
    if last.run is not None and options.as_json:
        print_json(_report(last.run, done))
    if len(done) > 1 and not options.as_json:
        print_tries(done)
    if last.run is None:
        if options.as_json:
            refuse(last.preflight, as_json=True)
        if options.retries:
            fail(f"no command was found that runs, after {len(done)} tries")
        return Status.NO
    status = _STATUS[last.run.verdict.value]
    if status is not Status.YES:
        fail(verdict_line(last.run))
    return status


def _attached(
    url: str,
    words: Sequence[str],
    workload: Workload | None,
    options: Options,
    log: str | None,
) -> int:
    """Ask a server that runs already."""
    from planner.cli.validation_text import announce_attached, print_run, progress
    from planner.launch.attach import attach, validate_attached
    from planner.launch.markdown import verdict_line
    from planner.launch.progress import ignore
    from planner.launch.run_files import new_folder
    from planner.report.validation import ValidationReport

    key = os.environ.get("VLLM_API_KEY", "")
    told = _logged(log) if log is not None else None
    preflight, client = attach(url, key, words, options.gpu, workload=workload, log=told)
    if not options.as_json:
        announce_attached(preflight, url)
    run = validate_attached(
        preflight,
        client,
        new_folder(preflight.check.command.model),
        log=told,
        requests=options.requests,
        observer=ignore if options.as_json else progress,
    )
    _kept_in_mind(run)
    if options.as_json:
        print_json(ValidationReport.of(run))
    else:
        print_run(run)
    status = _STATUS[run.verdict.value]
    if status is not Status.YES:
        fail(verdict_line(run))
    return status


def _logged(name: str) -> LaunchFacts:
    """The last start in a log that came up, else the last."""
    from planner.launch.log import open_log, read_log

    with open_log(name) as lines:
        launches = read_log(lines)
    facts = next((each for each in reversed(launches) if each.is_ready), launches[-1])
    if not facts.tells_of_a_launch:
        raise PlanError(f"{name}: no line of a vLLM start is in it")
    return facts


def _kept_in_mind(run: Validation) -> None:
    """Its files, and what it taught: without a store the report is there all the same."""
    from planner.calibration_store import StoreError
    from planner.launch.history import remember
    from planner.launch.run_files import write_files

    write_files(run)
    try:
        remember(run, fail)
    except StoreError as error:
        fail(f"nothing was learned: {error}")


def _report(run: Validation, done: Sequence[Try]) -> ValidationReport:
    from planner.report.validation import ValidationReport, try_reports

    report = ValidationReport.of(run)
    return report.model_copy(update={"tries": try_reports(done)}) if len(done) > 1 else report


def _workload(
    use_case: str | None,
    concurrency: int | None,
    prompt_tokens: str | None,
    output_tokens: str | None,
) -> Workload | None:
    """What was asked for; None for what is usual."""
    if (use_case or "chat", concurrency, prompt_tokens, output_tokens) == (
        "chat",
        None,
        None,
        None,
    ):
        return None
    return asked_load(use_case, concurrency, prompt_tokens, output_tokens)
