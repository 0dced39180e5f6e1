"""`vplan diagnose`: what a log of vLLM tells, and why the launch failed if it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli.console import console, fail, print_json, say, say_item, show
from planner.cli.format import count, gib, seconds
from planner.cli.options import AsJson
from planner.cli.status import Status
from planner.errors import PlanError

if TYPE_CHECKING:
    from planner.launch.facts import LaunchFacts
    from planner.launch.fixes import Fixes
    from planner.launch.shares import Shares

_WIDTH: Final = 72
_STYLES: Final = {"W": "blue", "A": "magenta", "N": "yellow", "G": "red", "K": "green",
                  ".": "bright_black", "?": "white"}  # fmt: skip


def diagnose(
    log: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help='A log of vLLM, or a folder that vplan validate left; "-" reads a log.',
        ),
    ],
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            "-g",
            help="The hardware of the launch, for fixes that are tried through the planner; that "
            "of this machine if it is left out.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Read a log of vLLM: what happened, where the memory went, what failed and why.

    Any part of a log of 0.8 or newer will do. Exit status: 0 it served or still starts, 4 the
    launch failed, 2 nothing of vLLM is in it.
    """
    from planner.launch.log import open_log, read_log

    with open_log(log) as lines:
        launches = read_log(lines)
    facts = launches[-1]
    if not facts.tells_of_a_launch:
        raise PlanError(f"{log}: no line of a vLLM start is in it")
    tried, why_not = _fixes(facts, gpu)
    if as_json:
        from planner.report.launch_log import DiagnosisReport

        print_json(DiagnosisReport.of(launches, tried))
    else:
        _print(facts, len(launches))
        _print_fixes(tried, why_not)
    if facts.failure is None:
        return Status.YES
    from planner.launch.explain import explain

    fail(f"the launch failed: {explain(facts.failure).sentence}")
    return Status.LAUNCH_FAILED


def _fixes(facts: LaunchFacts, gpu: str | None) -> tuple[Fixes | None, str | None]:
    """Changes that the planner finds, or why it cannot look for any."""
    from hardware_db import HardwareError, NoGpuDetected, find_rig
    from model_cards.errors import CardError

    if facts.failure is None:
        return None, None
    from planner.launch.fixes import concerns_memory, fixes

    if not concerns_memory(facts.failure):
        return None, None
    try:
        rig = find_rig(gpu or ("cpu" if facts.device == "CPU" else "auto"))
        return fixes(facts, rig), None
    except NoGpuDetected:
        return None, "give the hardware of the launch, --gpu, and fixes are tried for it"
    except (CardError, PlanError, HardwareError) as error:
        if isinstance(error, HardwareError) and gpu is not None:
            raise
        return None, f"no fix could be tried: {error}"


def _print_fixes(tried: Fixes | None, why_not: str | None) -> None:
    if why_not is not None:
        say_item(why_not)
    if tried is None:
        return
    where = tried.check.rig.describe()
    if not tried.remedies:
        say(f"No change of its settings makes it start on {where}, by the plan that the log "
            "corrects.")  # fmt: skip
        return
    say(f"Starts on {where}, by the plan that the log corrects, with one of:", "bold")
    for remedy in tried.remedies:
        tokens = remedy.memory.kv_tokens.value
        say_item(f"{remedy.change}: {count(tokens)} KV tokens")


def _print(facts: LaunchFacts, launches: int) -> None:
    ranks = facts.tensor_parallel_size
    split = f", tensor parallel {ranks}" if ranks and ranks > 1 else ""
    say(f"vLLM {facts.release or '(release not said)'}: {facts.model or 'model not said'}{split}",
        "bold")  # fmt: skip
    if launches > 1:
        say(f"{launches} starts are in the log; this is the last")
    _print_course(facts)
    _print_memory(facts)
    _print_cache(facts)
    _print_speed(facts)
    _print_failure(facts)


def _print_course(facts: LaunchFacts) -> None:
    if facts.reached is None:
        return
    passed = [
        f"{milestone.label} at {time:.0f} s" if time is not None else milestone.label
        for milestone, time in facts.milestones
    ]
    say(f"Course: {', '.join(passed)}")
    told = [f"{name} {seconds(time)}" for name, time in facts.times.told.items()]
    if told:
        say(f"Of which: {', '.join(told)}")
    if facts.failure is None and not facts.is_ready:
        say(f"The log ends before the server is ready; the last it reached: {facts.reached.label}",
            "yellow")  # fmt: skip


def _print_memory(facts: LaunchFacts) -> None:
    from planner.launch.shares import shares

    found = shares(facts)
    if found is None:
        return
    say()
    where = f" of {found.rank}" if found.rank and len(facts.ranks) > 1 else ""
    known = "" if found.total_known else " that the log tells of"
    say(f"Memory{where}: {gib(found.total)} GiB{known}")
    _print_bar(found)


def _print_bar(found: Shares) -> None:
    from rich.table import Table
    from rich.text import Text

    bar = Text()
    for letter in found.bar(_WIDTH):
        bar.append(letter, style=_STYLES[letter])
    console().print(bar)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for part in found.parts:
        table.add_row(
            Text(part.letter, style=_STYLES[part.letter]), part.name, f"{gib(part.size)} GiB"
        )
    show(table)


def _print_cache(facts: LaunchFacts) -> None:
    told = []
    if facts.kv_tokens is not None:
        told.append(f"{count(facts.kv_tokens)} tokens")
    if facts.blocks is not None:
        told.append(f"{count(facts.blocks)} blocks")
    if facts.max_concurrency is not None and facts.max_model_len is not None:
        length = count(facts.max_model_len)
        told.append(f"{facts.max_concurrency:g} requests of {length} tokens at once")
    if told:
        say()
        say(f"KV cache: {', '.join(told)}")
    if facts.attention_backend is not None:
        say(f"Attention: {facts.attention_backend}")


def _print_speed(facts: LaunchFacts) -> None:
    served = facts.served
    if served.lines:
        say()
        requests = f"{served.running} request{'s' if served.running != 1 else ''}"
        say(
            f"Speed, at most: {served.generation_rate:g} tok/s generated, {served.prompt_rate:g} "
            f"tok/s of prompts, {requests} running"
            + (f", {served.waiting} waiting" if served.waiting else "")
        )
    if served.cache_usage is not None:
        say(f"KV cache in use, at most: {served.cache_usage:g} %")
    if served.acceptance_length is not None:
        say(f"Acceptance length, at most: {served.acceptance_length:g}")
    if served.preemptions:
        say(
            f"Preemptions: {count(served.preemptions)}. The KV cache was full: fewer requests at "
            "once (--max-num-seqs) or more cache",
            "yellow",
        )


def _print_failure(facts: LaunchFacts) -> None:
    from planner.launch.explain import WHOLE, explain, said

    if facts.failure is None:
        return
    explained = explain(facts.failure, facts)
    say()
    say(f"Failed: {explained.meaning}", "red")
    say_item(said(facts.failure, WHOLE))
    for change in explained.changes:
        say_item(f"try: {change}")
