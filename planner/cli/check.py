"""`vplan check`: will this command start, on this machine, and if not what would?"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from hardware_db import find_rig
from planner.cli.budget import print_budget
from planner.cli.console import fail, print_json, say, say_item, say_verbatim
from planner.cli.format import chance, count, tokens_band
from planner.cli.status import Status
from planner.command.parse import read_command
from planner.command.render import render_command
from planner.diagnosis.check import Check, check_command
from planner.errors import PlanError
from planner.findings import Severity
from planner.memory.verdict import Answer

_STATUS: Final = {Answer.YES: Status.YES, Answer.NO: Status.NO, Answer.RISKY: Status.RISKY}
_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: ""}


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
    """Check a vLLM command: vplan check --gpu 4090 -- vllm serve MODEL --option value ...

    Understood are vllm serve, python -m vllm.entrypoints.openai.api_server and docker run, with
    environment variables, continued lines and a --config file. Exit status: 0 it starts, 1 it does
    not, 3 it may.
    """
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
        _print(result)
    return _STATUS[result.answer]


def _print(result: Check) -> None:
    command, memory = result.command, result.memory
    say(f"{result.card.model_id} on {result.rig.describe()}; vLLM {command.release.name}", "bold")
    for note in (*result.rig.notes, command.release.note):
        if note:
            say(f"Note: {note}")
    say()
    _print_verdict(result)
    for finding in result.findings:
        if finding.severity is Severity.INFO and finding.text in result.rig.notes:
            continue
        fix = f" ({finding.fix})" if finding.fix else ""
        say_item(f"{finding.severity.value}: {finding.text}{fix}", _STYLES[finding.severity])
    if memory is None:
        return
    say()
    print_budget(memory)
    say()
    if memory.kv_cache.num_blocks and memory.kv_cache.groups:
        say(
            f"KV cache: {tokens_band(memory.kv_tokens)} tokens in "
            f"{count(memory.kv_cache.num_blocks)} blocks; {memory.max_concurrency.value:.1f} "
            f"requests of {memory.config.max_model_len:,} tokens at once"
        )
    if result.remedies:
        say("\nWhat would start:")
        for remedy in result.remedies:
            held = remedy.memory.max_concurrency.value
            say_item(
                f"{remedy.change}: {tokens_band(remedy.memory.kv_tokens)} KV tokens, {held:.1f} "
                f"requests of {remedy.memory.config.max_model_len:,}"
            )
        say()
        say_verbatim(render_command(result.remedies[0].memory).shell())
    elif memory.starts.answer is not Answer.YES and not memory.refusals:
        say("\nNothing was found that would start on this hardware.")


def _print_verdict(result: Check) -> None:
    risk = chance(result.chance_of_refusal)
    match result.answer:
        case Answer.YES:
            say(f"It starts; chance that vLLM refuses: {risk}.", "green")
        case Answer.RISKY:
            say(f"It may not start; chance that vLLM refuses: {risk}.", "yellow")
            fail(f"it may not start ({risk})")
        case Answer.NO:
            say("It does not start.", "red")
            fail("it does not start")
