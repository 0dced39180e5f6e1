"""The verdict on a command, as `vplan check` prints it."""

from __future__ import annotations

from typing import Final

from planner.cli.budget import print_budget
from planner.cli.console import say, say_item, say_verbatim
from planner.cli.format import chance, count, gib, tokens_band
from planner.command.render import render_command
from planner.diagnosis.check import Check
from planner.diagnosis.together import Together
from planner.findings import Severity
from planner.memory.verdict import Answer

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: ""}


def print_verdict(result: Check, *, mended: bool = False) -> None:
    """Verdict, findings, budget, and what would start instead, unless that is said elsewhere."""
    command, memory = result.command, result.memory
    say(f"{result.card.model_id} on {result.rig.describe()}; vLLM {command.release.name}", "bold")
    for note in (*result.rig.notes, command.release.note):
        if note:
            say(f"Note: {note}")
    say()
    _print_answer(result)
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
    elif memory.starts.answer is not Answer.YES and not memory.refusals and not mended:
        say("\nNothing was found that would start on this hardware.")


def print_neighbours(together: Together) -> None:
    """What runs beside the command, and the shares with which all of them start."""
    say("\nOn the same GPUs before it:")
    for neighbour in together.neighbours:
        check, held = neighbour.check, neighbour.held
        amount = "" if held is None else f": up to {gib(held.high)} GiB of each GPU"
        say_item(f"{check.card.model_id}{amount}")
    if together.shares is not None:
        say("\nAll start, one after the other, with:")
        checks = [*(neighbour.check for neighbour in together.neighbours), together.check]
        for check, share in zip(checks, together.shares, strict=True):
            say_item(f"{check.card.model_id}: --gpu-memory-utilization {share:g}")


def _print_answer(result: Check) -> None:
    risk = chance(result.chance_of_refusal)
    match result.answer:
        case Answer.YES:
            say(f"It starts; chance that vLLM refuses: {risk}.", "green")
        case Answer.RISKY:
            say(f"It may not start; chance that vLLM refuses: {risk}.", "yellow")
        case Answer.NO:
            say("It does not start.", "red")
