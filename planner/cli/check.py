"""`vplan check`: will this command start, on this machine, and if not what would?"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from hardware_db import find_rig
from planner.cli.console import fail, print_json
from planner.cli.status import Status
from planner.errors import PlanError

_STATUS: Final = {"yes": Status.YES, "no": Status.NO, "risky": Status.RISKY}


def check(
    command: Annotated[
        list[str] | None,
        typer.Argument(help='The command after "--", or as one quoted text; "-" reads it.'),
    ] = None,
    gpu: Annotated[
        str, typer.Option("--gpu", "-g", help="The hardware, as recommend takes it.")
    ] = "auto",
    free_memory: Annotated[
        str | None, typer.Option(help='What is free on each GPU, for example "21GiB".')
    ] = None,
    reserve: Annotated[
        str | None, typer.Option(help='What to leave for other programs on each GPU: "1GiB".')
    ] = None,
    vllm_version: Annotated[
        str | None,
        typer.Option(help="The vLLM release; else the image's, the installed, the newest."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the Hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Say whether a vLLM command starts, and what would.

    For example: vplan check --gpu 4090 -- vllm serve MODEL --max-model-len 8192

    Understood are vllm serve, python -m vllm.entrypoints.openai.api_server and docker run, with
    environment variables, continued lines and a --config file. Exit status: 0 it starts, 1 it does
    not, 3 it may.
    """
    from planner.cli.verdict import print_verdict  # what only this command needs
    from planner.command.parse import read_command
    from planner.diagnosis.check import check_command

    words = command or []
    if words in ([], ["-"]):
        if not words and sys.stdin.isatty():
            raise PlanError("give a command: vplan check -- vllm serve MODEL ...")
        words = [sys.stdin.read()]
    parsed = read_command(words, vllm_version)
    rig = find_rig(gpu, free_memory=free_memory, reserve=reserve)
    result = check_command(parsed, rig, offline=offline)
    if as_json:
        from planner.diagnosis.report import CheckReport

        print_json(CheckReport.of(result))
    else:
        print_verdict(result)
        _complain(result.answer.value)
    return _STATUS[result.answer.value]


def _complain(answer: str) -> None:
    """A line on stderr for whoever reads nothing else, after all that was said."""
    sys.stdout.flush()
    if answer != "yes":
        fail("it does not start" if answer == "no" else "it may not start")
