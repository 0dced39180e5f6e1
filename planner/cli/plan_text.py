"""How a plan is printed: what was asked, memory, speed, command and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware_db import Rig
from model_cards import ModelCard
from planner.cli.budget import print_budget
from planner.cli.console import say, say_verbatim, show
from planner.cli.format import chance, tokens_band
from planner.cli.speed_text import print_speed
from planner.command.render import render_command
from planner.diagnosis.of_plan import plan_findings
from planner.engine.releases import Release
from planner.engine.rules import is_emulated
from planner.recommendation.requirements import Objective, Requirements
from planner.recommendation.settle import Settled
from planner.speed.capacity import Aims

if TYPE_CHECKING:
    from planner.speed.speculation_choice import SpeculationChoice


def print_header(
    rig: Rig,
    requirements: Requirements,
    release: Release,
    aims: Aims | None = None,
    card: ModelCard | None = None,
) -> None:
    """What was asked for, of which hardware and release, and of which model where one is named."""
    say(f"{rig.describe()}; vLLM {release.name}", style="bold")
    if card is None or card.converses:
        say(_load_line(requirements, aims))
    else:
        say(f"prompts of up to {requirements.context_for(card):,} tokens, each read at once")
    for note in rig.notes:
        say(f"Note: {note}")
    if release.note:
        say(f"Note: {release.note}")
    missing = rig.missing_facts()
    if missing:
        say(f"Not known of this hardware: {', '.join(missing)}")
    say()


def _load_line(requirements: Requirements, aims: Aims | None) -> str:
    """The load that is asked for, in a line."""
    workload = requirements.workload
    at_once = "one request" if workload.concurrency == 1 else f"{workload.concurrency} requests"
    if requirements.aim is Objective.THROUGHPUT:
        at_once = f"as many requests as fit, {workload.concurrency} at least,"
    at_once += " at a time"
    if aims is not None and aims.request_rate is not None:
        at_once = f"{aims.request_rate:g} requests a second"
    where = " where it can" if requirements.context is None else " tokens"
    return (
        f"{requirements.use_case}: {at_once}, {workload.prompt_tokens} + "
        f"{workload.output_tokens} tokens, context {requirements.wanted_context:,}{where}"
    )


def print_plan(
    settled: Settled,
    speculation: SpeculationChoice | None = None,
    aims: Aims | None = None,
    task: str = "chat",
) -> None:
    """Memory, cache, speed and the command with the reason of each flag."""
    memory, speed = settled.memory, settled.speed
    print_budget(memory)
    say()
    concurrency = memory.max_concurrency
    cache = (
        f"KV cache: {tokens_band(memory.kv_tokens)} tokens, {concurrency.value:.1f} requests of "
        f"{memory.config.max_model_len:,} tokens at once "
        f"({memory.tightest.kv_cache.basis.label})"
    )
    replicas = settled.layout.data
    if replicas > 1:
        cache = f"{cache}, on each of {replicas} replicas"
    if not memory.kv_cache.groups:
        cache = "No KV cache: every prompt is read at once"
    risk = chance(memory.starts.chance_of_refusal)
    say(f"{cache}; chance that vLLM refuses to start: {risk}")
    if speed is not None:
        print_speed(memory, speed.workload, aims, task)
    elif is_emulated(memory.card, memory.device):
        say(f"Note: vLLM only emulates {memory.card.format_kind} on this GPU: no speed predicted")
    held = concurrency.value * replicas
    waiting = speed is not None and held < speed.workload.concurrency
    if speed is not None and waiting:
        say(
            f"Note: {speed.workload.concurrency} requests of the full "
            f"{memory.config.max_model_len:,} tokens do not fit at once; then some wait"
        )
    for note in memory.notes:
        if note not in memory.rig.notes and note != memory.release.note:  # those are in the header
            say(f"Note: {note}")
    for finding in plan_findings(memory):
        say(f"Note: {finding.text}" + (f" ({finding.fix})" if finding.fix else ""))
    say()
    command = render_command(memory, settled.reasons)
    say_verbatim(command.shell())
    say()
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for flag in command.flags:
        table.add_row(" ".join(flag.words), flag.reason)
    show(table)
    if speculation is not None:
        from planner.cli.speculation_text import print_advice

        say()
        print_advice(speculation)
