"""`vplan speculate`: every speculative method for a model on a rig, and which of them pays."""

from __future__ import annotations

from typing import Annotated

import typer

from hardware_db import find_rig
from model_cards import open_card
from planner.cli.options import (
    AsJson,
    Concurrency,
    Context,
    FreeMemory,
    Gpu,
    Offline,
    OutputTokens,
    PromptTokens,
    Reserve,
    UseCase,
    VllmVersion,
    asked_context,
    asked_load,
)
from planner.engine.releases import find_release
from planner.errors import PlanError
from planner.recommendation.requirements import Requirements
from planner.recommendation.settle import Settled, Unfit, settle
from planner.speed.acceptance import TASKS, check_task, task_of


def speculate(
    model: Annotated[str, typer.Option("--model", "-m", help="A Hub id or a folder.")],
    gpu: Gpu = None,
    use_case: UseCase = None,
    task: Annotated[
        str | None,
        typer.Option(
            help=f"What drafts have to guess, instead of the use case's: {', '.join(TASKS)}."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(help="At which answers are sampled.")] = 0.0,
    context: Context = None,
    concurrency: Concurrency = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    free_memory: FreeMemory = None,
    reserve: Reserve = None,
    vllm_version: VllmVersion = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> int:
    """Compare the speculative methods of a model, and say which pays.

    Memory, acceptance, best number of drafted tokens, speed-up at batch 1, 4, 16 and 64, and the
    batch at which it ends. Exit status: 0 a method pays, 1 none does or the model does not fit.
    """
    from planner.cli.console import print_json
    from planner.cli.model_on_rig import print_model_on_rig
    from planner.cli.status import Status
    from planner.speed.speculation_choice import choose_speculation

    if not 0 <= temperature <= 2:
        raise PlanError(f"the temperature must lie between 0 and 2; {temperature:g} was asked for")
    use_case = use_case or "chat"
    kind = check_task(task) if task is not None else task_of(use_case)
    release = find_release(vllm_version)
    workload = asked_load(use_case, concurrency, prompt_tokens, output_tokens)
    requirements = Requirements(workload, use_case, asked_context(context))
    card = open_card(model, offline=offline)
    if not card.converses:
        raise PlanError(f"{card.model_id} writes no text: there is nothing to draft")
    rig = find_rig(gpu or "auto", free_memory=free_memory, reserve=reserve)
    result: Settled | Unfit = settle(card, rig, requirements, release)
    if isinstance(result, Unfit):
        return print_model_on_rig(card, rig, requirements, release, as_json)
    choice = choose_speculation(result.memory, workload, task=kind, temperature=temperature)
    if as_json:
        from planner.report.speculation import SpeculationReport

        print_json(SpeculationReport.of(choice, requirements, temperature))
    else:
        from planner.cli.console import say
        from planner.cli.format import rate_band
        from planner.cli.plan_text import print_header
        from planner.cli.speculation_text import print_choice

        print_header(rig, requirements, release)
        say(f"{card.model_id} ({card.format_kind}), drafts guessing {kind}", style="bold")
        if result.speed is not None:
            say(f"Without drafts {rate_band(result.speed.per_user)} tok/s for each user.")
        say()
        print_choice(choice)
    return Status.YES if choice.chosen is not None else Status.NO
