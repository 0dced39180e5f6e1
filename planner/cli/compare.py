"""`vplan compare`: two plans side by side."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from hardware_db import Rig, find_rig
from model_cards import open_card
from planner.cli.comparison_text import change, shown
from planner.cli.console import fail, print_json, say, say_item, show
from planner.cli.options import (
    AsJson,
    Concurrency,
    Context,
    Gpu,
    Offline,
    UseCase,
    VllmVersion,
    asked_context,
    asked_load,
)
from planner.cli.status import Status
from planner.comparison import (
    Comparison,
    Side,
    command_side,
    compare_plans,
    recommended_side,
)
from planner.engine.releases import find_release
from planner.errors import PlanError
from planner.memory.verdict import Answer
from planner.recommendation.requirements import Requirements

_RELEASE: Final = re.compile(r"v?\d+\.\d+(\.\d+)*(\.?(rc|dev|post)\d+)*")
_COMMAND: Final = re.compile(r"(^|\s)(vllm\s+serve|vllm\.entrypoints|(docker|podman)\s+run)\b")


def compare(
    one: Annotated[str, typer.Argument(help="A model, a GPU, a vLLM release, or a command.")],
    other: Annotated[str, typer.Argument(help="What to compare it with, of the same kind.")],
    gpu: Gpu = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model, to compare GPUs or releases.")
    ] = None,
    context: Context = None,
    concurrency: Concurrency = None,
    use_case: UseCase = None,
    vllm_version: VllmVersion = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> int:
    """Put two plans side by side.

    Two models or two commands on --gpu, two GPUs for --model, or two vLLM releases for --model on
    --gpu. Exit status: 0 both start, 1 one does not, 3 one may not.
    """
    load = asked_load(use_case, concurrency)
    requirements = Requirements(load, use_case or "chat", asked_context(context))
    sides = []
    for text in (one, other):
        if _COMMAND.search(text):
            rig = find_rig(gpu or "auto")
            name = "command" + (" A" if text is one else " B")
            sides.append(command_side(name, text, rig, requirements, vllm_version))
        elif model is not None and _RELEASE.fullmatch(text):
            rig, card = find_rig(gpu or "auto"), open_card(model, offline=offline)
            release = find_release(text)
            name = f"vLLM {release.name}"
            sides.append(recommended_side(name, card, rig, requirements, release))
        else:
            sides.append(_model_or_gpu(text, gpu, model, requirements, vllm_version, offline))
    found = compare_plans(sides[0], sides[1])
    if as_json:
        from planner.report.comparison import ComparisonReport

        print_json(ComparisonReport.of(found))
    else:
        _print(found)
    return _status(found)


def _model_or_gpu(
    text: str,
    gpu: str | None,
    model: str | None,
    requirements: Requirements,
    vllm_version: str | None,
    offline: bool,
) -> Side:
    release = find_release(vllm_version)
    if model is None and _RELEASE.fullmatch(text):
        raise PlanError(f"to compare vLLM {text} with another release, give --model and --gpu")
    if model is not None:
        if gpu is not None:
            raise PlanError("with --model and --gpu two releases are compared: 0.19.1 0.33.0")
        rig, card = find_rig(text), open_card(model, offline=offline)
        return recommended_side(rig.spec, card, rig, requirements, release)
    rig, card = find_rig(gpu or "auto"), open_card(text, offline=offline)
    return recommended_side(card.model_id, card, rig, requirements, release)


def _status(found: Comparison) -> Status:
    answers = {found.one.starts, found.other.starts}
    if Answer.NO in answers:
        return Status.NO
    return Status.RISKY if Answer.RISKY in answers else Status.YES


def _print(found: Comparison) -> None:
    from rich.table import Table

    sides = (found.one, found.other)
    rigs = {_described(side.rig) for side in sides}
    releases = {side.release.name for side in sides}
    models = {side.card.model_id for side in sides}
    shared = [next(iter(same)) for same in (models, rigs) if len(same) == 1]
    if len(releases) == 1:
        shared.append(f"vLLM {next(iter(releases))}")
    say("; ".join(shared), style="bold")
    say()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for side in sides:
        table.add_column(side.name, justify="right", max_width=30)
    table.add_column("change", justify="right")
    for row in found.rows:
        table.add_row(row.name, shown(row, row.one), shown(row, row.other), change(row))
    show(table)
    if found.differences:
        say("\nSettings that differ:")
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for each in found.differences:
            table.add_row(f"  {each.setting}", each.one, each.other)
        show(table)
    for side in sides:
        if side.problem:
            say_item(f"{side.name}: {side.problem}", "red")
    failed = [side.name for side in sides if side.starts is Answer.NO]
    risky = [side.name for side in sides if side.starts is Answer.RISKY]
    if failed:
        fail(f"{' and '.join(failed)}: does not do as asked")
    elif risky:
        fail(f"{' and '.join(risky)}: may not start")


def _described(rig: Rig) -> str:
    return rig.describe()
