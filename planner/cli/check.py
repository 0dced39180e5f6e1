"""`vplan check`: will this command start, on this machine, and if not what would?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hardware_db import Rig, find_rig
from planner.cli.console import fail, print_json, say
from planner.cli.drawing import Drawing
from planner.cli.export import FORCE_HELP, FORMAT_HELP, OUTPUT_HELP, target
from planner.cli.options import (
    AsJson,
    Concurrency,
    FreeMemory,
    Gpu,
    MaxTpot,
    MaxTtft,
    Offline,
    Plot,
    PricePerHour,
    RequestRate,
    Reserve,
    SharedPrefix,
    asked_load,
)
from planner.cli.status import Status
from planner.errors import PlanError
from planner.speed.capacity import Aims

if TYPE_CHECKING:
    from planner.command.parse import ServeCommand

_STATUS: Final = {"yes": Status.YES, "no": Status.NO, "risky": Status.RISKY}


def check(
    command: Annotated[
        list[str] | None,
        typer.Argument(help='The command after "--", or as one quoted text; "-" reads it.'),
    ] = None,
    gpu: Gpu = None,
    free_memory: FreeMemory = None,
    reserve: Reserve = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND",
            help="A command, quoted, that already runs on the same GPUs; may be repeated.",
        ),
    ] = None,
    vllm_version: Annotated[
        str | None,
        typer.Option(help="The vLLM release; else the image's, the installed, the newest."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="A plan file of vplan tui, instead of a command.")
    ] = None,
    concurrency: Concurrency = None,
    prompt_tokens: Annotated[
        str | None, typer.Option(help="Prompt length, for its speed.", show_default="1024")
    ] = None,
    output_tokens: Annotated[
        str | None, typer.Option(help="Answer length, for its speed.", show_default="384")
    ] = None,
    request_rate: RequestRate = None,
    max_ttft: MaxTtft = None,
    max_tpot: MaxTpot = None,
    shared_prefix: SharedPrefix = 0.0,
    price_per_hour: PricePerHour = None,
    plot: Plot = None,
    offline: Offline = False,
    as_json: AsJson = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Print the corrected command, what changed and why.")
    ] = False,
    format: Annotated[
        str | None, typer.Option("--format", help=f"With --fix. {FORMAT_HELP}")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help=f"With --fix. {OUTPUT_HELP}")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
) -> int:
    """Say whether a vLLM command starts, and what would.

    For example: vplan check --gpu 4090 -- vllm serve MODEL --max-model-len 8192

    Understood are vllm serve, python -m vllm.entrypoints.openai.api_server and docker run, with
    environment variables, continued lines and a --config file. Each finding has a code, in --json
    and in docs/findings.md. Exit status: 0 it starts, 1 it does not, 3 it may; with --fix, whether
    the corrected command does.
    """
    from planner.cli.verdict import print_verdict  # what only this command needs

    if not fix and (format is not None or output is not None or (force and plot is None)):
        raise PlanError("--format, -o and --force are about the command that --fix makes")
    wanted = target(format, output, force=force and plot is None, as_json=as_json)
    workload = asked_load("chat", concurrency, prompt_tokens, output_tokens, shared_prefix)
    aims = Aims(request_rate, max_ttft, max_tpot, price_per_hour)
    aims.on(workload)  # values that make no sense are refused here
    if plan is None:
        parsed = _read(command or [], vllm_version)
    elif command:
        raise PlanError("give a plan file or a command, not both")
    else:
        from planner.plan_file import as_command, read_plan

        file = read_plan(plan)
        parsed, gpu = as_command(file, vllm_version), gpu or file.gpu
    rig = find_rig(gpu or "auto", free_memory=free_memory, reserve=reserve)
    if fix:
        if beside:
            raise PlanError("--fix corrects a command that runs alone: leave --beside out")
        from planner.cli.fixed import put_out_fixed

        return put_out_fixed(parsed, rig, wanted, offline=offline)
    if beside:
        return _check_together(parsed, beside, rig, vllm_version, offline, as_json)
    from planner.cli.speed_text import print_serving
    from planner.diagnosis.check import check_command
    from planner.diagnosis.serving import serving_of

    result = check_command(parsed, rig, offline=offline)
    serving = serving_of(result, workload, aims)
    if plot is not None:
        if serving is None or result.memory is None:
            raise PlanError("--plot: there is no speed to draw")
        drawing = Drawing(plot, force)
        drawing.of(result.memory, workload.within(result.memory.config.max_model_len), aims)
    if as_json:
        from planner.report.check import CheckReport

        print_json(CheckReport.of(result, serving=serving))
    else:
        print_verdict(result)
        if serving is not None:
            say()
            print_serving(serving, aims)
        _complain(result.answer.value)
    return _STATUS[result.answer.value]


def _read(words: list[str], release: str | None) -> ServeCommand:
    """The command, from standard input where none is given."""
    from planner.command.parse import read_command

    if words in ([], ["-"]):
        if not words and sys.stdin.isatty():
            raise PlanError("give a command: vplan check -- vllm serve MODEL ...")
        words = [sys.stdin.read()]
    return read_command(words, release)


def _check_together(
    parsed: ServeCommand,
    others: list[str],
    rig: Rig,
    vllm_version: str | None,
    offline: bool,
    as_json: bool,
) -> int:
    """The verdict on a command beside others on the same GPUs."""
    from planner.cli.verdict import print_neighbours, print_verdict
    from planner.command.parse import read_command
    from planner.diagnosis.together import check_together

    running = [read_command([text], vllm_version) for text in others]
    together = check_together(parsed, running, rig, offline=offline)
    if as_json:
        from planner.report.check import CheckReport

        print_json(CheckReport.beside_others(together))
    else:
        print_verdict(together.check, mended=together.shares is not None)
        print_neighbours(together)
        _complain(together.check.answer.value)
    return _STATUS[together.check.answer.value]


def _complain(answer: str) -> None:
    """A line on stderr for whoever reads nothing else, after all that was said."""
    sys.stdout.flush()
    if answer != "yes":
        fail("it does not start" if answer == "no" else "it may not start")
